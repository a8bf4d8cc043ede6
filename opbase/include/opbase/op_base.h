// Everything an operator library needs from opbase.
#pragma once

#include "opbase/cpu_features.h"
#include "opbase/dtype.h"
#include "opbase/error.h"
#include "opbase/executor.h"
#include "opbase/float16.h"
#include "opbase/function_ref.h"
#include "opbase/layout.h"
#include "opbase/parallel.h"
#include "opbase/strided_copy.h"
#include "opbase/tensor.h"
