// What attention operators run on in this process. Not a part of the vendor's interface. Valid C99 and C++11.
#ifndef FUSION_ATTENTION_KERNEL_INFO_H_
#define FUSION_ATTENTION_KERNEL_INFO_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// One JSON object:
//   "processor"   its name; empty when it has none
//   "tables"      the kernels of this build, best first, each with "name" (as in ASCEND_CPU_ISA), "needs" (flags of the
//                 processor, in Linux's words) and "runs": the processor has them and the operating system lets them be
//   "chosen"      the name of the table that a call would run now; null when there is none
//   "error"       then the text with which the call would fail with 561000; else null
//   "processors"  that the affinity mask and the control groups leave to the calling thread
//   "threads"     of an operator, unless the program asked for others: ASCEND_CPU_THREADS, else "processors"
// The text belongs to the calling thread and stays until it calls again. An empty text: there is no memory.
ACL_FUNC_VISIBILITY const char* fusionAttentionKernelInfo(void);

#ifdef __cplusplus
}
#endif

#endif  // FUSION_ATTENTION_KERNEL_INFO_H_
