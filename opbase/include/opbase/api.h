// Marks what libnnopbase offers to operator libraries of this project (namespace opbase).
#pragma once

#define OPBASE_API __attribute__((visibility("default")))
