// One step of ring attention: two partial attention results, of the same queries over different keys, become the result
// over both. aclnnRingAttentionUpdate and V2. Valid C99 and C++11.
//
// For each query row and head, with the maximum m, the sum s and the output of both parts as the attention operators
// give them (softmaxMaxOut, softmaxSumOut, attentionOutOut):
//   m   = max(m1, m2)
//   s   = a + b               with a = s1 * exp(m1 - m), b = s2 * exp(m2 - m)
//   out = out1 * a / s + out2 * b / s
// in float, rounded once to the dtype of attnOutOut. Parts that do not count leave the other one as it is, bit by bit,
// and are not read:
//   a part whose row is fully masked: maximum -FLT_MAX. Both of them: out 0, maximum -FLT_MAX, sum FLT_MAX
//   a part without keys: sum 0.                         Both of them: out, maximum and sum 0
// (One of each is a fully masked row.) A visible NaN or infinity gives what the formulas give. Equal inputs give equal
// bits for any number of threads.
//
// Two phases, as for all operators: ...GetWorkspaceSize checks everything that can be known without reading device
// memory and plans, the second function runs the plan on a stream. Tensors and texts may be destroyed between the two;
// only the data has to stay.
#ifndef FUSION_ATTENTION_ACLNNOP_ACLNN_RING_ATTENTION_UPDATE_H_
#define FUSION_ATTENTION_ACLNNOP_ACLNN_RING_ATTENTION_UPDATE_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Words: B batch, S and T rows (tokens) of a batch entry and of a packed batch, N heads, D features of a head.
//
// clang-format off: the formatter breaks the columns
// prevAttnOut, curAttnOut [in]  FLOAT16, BFLOAT16 or FLOAT, both the same. [S, B, N*D] for "SBH", [T, N, D] for "TND".
//                               Any D.
// prevSoftmaxMax, prevSoftmaxSum, curSoftmaxMax, curSoftmaxSum
//                         [in]  FLOAT. [B, N, S, 8] for "SBH", [T, N, 8] for "TND"; of the eight copies only the first
//                         is
//                               read.
// actualSeqQlenOptional   [in]  INT64 device tensor of one dimension; required for "TND", not looked at for "SBH". The
//                               cumulative ends of the sequences, with or without a leading 0: [0, 3, 8] and [3, 8] are
//                               two sequences of 3 and 5 rows. May not decrease; the last one is T. Read by the second
//                               phase, unless inputSoftmaxLayoutOptional is "TND".
// inputLayoutOptional     [in]  "SBH" or "TND" in any letter case; nullptr is "SBH".
// inputSoftmaxLayoutOptional
//                         [in]  V2, for "TND": how the statistics lie. nullptr, "" and "SBH" (and the first version):
//                         in one
//                               block for each sequence, as the attention operators write them by default: entry
//                               (sequence b, head n, row i of the sequence) starts at element (start_b * N + n * S_b +
//                               i) * 8. "TND": entry (row t, head n) starts at (t * N + n) * 8, as softmaxOutLayout
//                               "same_as_input" gives. No effect for "SBH"; "TND" is then logged as a warning.
// attnOutOut, softmaxMaxOut, softmaxSumOut
//                         [out] dtypes and shapes of the inputs; all eight copies are written. They may be the same
//                         memory as
//                               the three previous tensors or the three current ones, element by element.
// workspaceSize           [out] bytes of device memory for the second phase: 0, or the sizes of the packed copies of
// views
//                               with gaps: statistics in blocks with any gaps, other tensors whose last axis is not
//                               contiguous; plus up to 63 bytes for each and once more.
// executor                [out] handle for the second phase.
//
// Views with any strides are legal, of outputs those whose elements do not overlap.
//
// Returned by ...GetWorkspaceSize. On failure *workspaceSize is 0, *executor is nullptr, outputs are untouched, and
// aclGetRecentErrMsg() tells the argument, its value and the rule.
//   0       success
//   161001  a required pointer is null: any tensor but actualSeqQlenOptional, workspaceSize, executor;
//           actualSeqQlenOptional is null or empty for "TND"
//   161002  any other wrong argument: layout text, dtype, format, number of dimensions, shape, a dimension of size 0; a
//   view
//           that exceeds its storage; output views whose elements overlap; a tensor without a data address
//   561000  the environment variable ASCEND_CPU_ISA asks for an instruction set that the machine or the build lacks
//   561101  no memory for the executor
// Returned by the second phase:
//   161001  executor is null, or workspace is null although workspaceSize is not 0
//   161002  workspaceSize is smaller than promised, or the executor belongs to another operator
//   361001  the stream does not take the work
//   561000  the entries of actualSeqQlenOptional break their rules: outputs are untouched; or the executor has been
//   used
//           before
// clang-format on

ACL_FUNC_VISIBILITY aclnnStatus aclnnRingAttentionUpdateGetWorkspaceSize(
    const aclTensor* prevAttnOut, const aclTensor* prevSoftmaxMax, const aclTensor* prevSoftmaxSum,
    const aclTensor* curAttnOut, const aclTensor* curSoftmaxMax, const aclTensor* curSoftmaxSum,
    const aclTensor* actualSeqQlenOptional, char* inputLayoutOptional, const aclTensor* attnOutOut,
    const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut, uint64_t* workspaceSize, aclOpExecutor** executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnRingAttentionUpdate(void* workspace, uint64_t workspaceSize,
                                                         aclOpExecutor* executor, const aclrtStream stream);

// The version with inputSoftmaxLayoutOptional.
ACL_FUNC_VISIBILITY aclnnStatus aclnnRingAttentionUpdateV2GetWorkspaceSize(
    const aclTensor* prevAttnOut, const aclTensor* prevSoftmaxMax, const aclTensor* prevSoftmaxSum,
    const aclTensor* curAttnOut, const aclTensor* curSoftmaxMax, const aclTensor* curSoftmaxSum,
    const aclTensor* actualSeqQlenOptional, char* inputLayoutOptional, char* inputSoftmaxLayoutOptional,
    const aclTensor* attnOutOut, const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnRingAttentionUpdateV2(void* workspace, uint64_t workspaceSize,
                                                           aclOpExecutor* executor, const aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // FUSION_ATTENTION_ACLNNOP_ACLNN_RING_ATTENTION_UPDATE_H_
