// Random dropout masks in the form that the attention operators take as dropMaskOptional: aclnnDropoutGenMask, V2 and
// V2Tensor. Valid C99 and C++11.
//
// Bit number w of the mask is bit w % 8 (least significant first) of byte w / 8; 1 means keep. It depends on the seed,
// the offset, prob and probDataType alone:
//   x = random word number w: Philox4x32 with 10 rounds, key (low and high half of the seed), counter (low and high
//   half
//       of w / 4, low and high half of the offset), of whose four words number w % 4 counts
//   u = (x modulo 2^f) / 2^f, where f is the number of fraction bits of probDataType: 23 for ACL_FLOAT, 10 for
//       ACL_FLOAT16, 7 for ACL_BF16
//   the bit is 1 when u >= prob, prob rounded to float and then to probDataType
// So the same seed gives different masks for different types, and the share of zeros is a multiple of 2^-f. prob 0
// gives ones only and prob 1 zeros only, in the padding too. Attention that shall drop with probability p takes prob p
// here and keepProb 1 - p there. Equal arguments give equal bits for any number of threads; bits do not depend on the
// size of the mask. A mask of 16-bit precision whose prob rounds to 0 keeps everything.
//
// Two phases, as for all operators: ...GetWorkspaceSize checks everything and plans, the second function runs the plan
// on a stream. Tensors and lists may be destroyed between the two; only the data has to stay.
#ifndef FUSION_ATTENTION_ACLNNOP_ACLNN_DROPOUT_GEN_MASK_H_
#define FUSION_ATTENTION_ACLNNOP_ACLNN_DROPOUT_GEN_MASK_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// clang-format off: the formatter breaks the columns
// shape         [in]  host list, not empty; the product n of its entries (0 or more each) is the number of mask bits.
// prob          [in]  probability that a bit is 0 (drop probability), from 0 to 1.
// seed, offset  [in]  any numbers; the operators of a model share a seed and take different offsets.
// seedTensor, offsetTensor
//               [in]  V2Tensor: device tensors with one element instead of the numbers: INT64, UINT64, INT32 or UINT32.
//                     Read by the second phase. The offset is the sum of the element of offsetTensor and `offset`,
//                     modulo 2^64.
// probDataType  [in]  ACL_FLOAT, ACL_FLOAT16 or ACL_BF16; the first version is the one with ACL_FLOAT.
// out           [out] UINT8, any shape with exactly ceil(n / 128) * 16 elements: n rounded up to 128 bits, all of them
//                     random. A plain format; views with any strides whose elements do not overlap.
// workspaceSize [out] bytes of device memory for the second phase: 0, or the size of out plus up to 126 bytes where out
//                     has gaps.
// executor      [out] handle for the second phase.
//
// Returned by ...GetWorkspaceSize. On failure *workspaceSize is 0, *executor is nullptr, out is untouched, and
// aclGetRecentErrMsg() tells the argument, its value and the rule.
//   0       success; an empty out (n is 0) needs no second phase, but may have it
//   161001  shape, seedTensor, offsetTensor, out, workspaceSize or executor is null; shape has no entries
//   161002  dtype or format of a tensor, prob, the size of out, an entry of shape, probDataType, number of elements of
//           seedTensor or offsetTensor; a view that exceeds its storage; elements of out that overlap; a tensor without
//           a data address
//   561000  the environment variable ASCEND_CPU_ISA asks for an instruction set that the machine or the build lacks
//   561101  no memory for the executor
// Returned by the second phase:
//   161001  executor is null, or workspace is null although workspaceSize is not 0
//   161002  workspaceSize is smaller than promised, or the executor belongs to another operator
//   361001  the stream does not take the work
//   561000  the executor has been used before
// clang-format on

ACL_FUNC_VISIBILITY aclnnStatus aclnnDropoutGenMaskGetWorkspaceSize(const aclIntArray* shape, double prob, int64_t seed,
                                                                    int64_t offset, aclTensor* out,
                                                                    uint64_t* workspaceSize, aclOpExecutor** executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnDropoutGenMask(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                    const aclrtStream stream);

// The version with probDataType.
ACL_FUNC_VISIBILITY aclnnStatus aclnnDropoutGenMaskV2GetWorkspaceSize(const aclIntArray* shape, double prob,
                                                                      int64_t seed, int64_t offset,
                                                                      aclDataType probDataType, aclTensor* out,
                                                                      uint64_t* workspaceSize,
                                                                      aclOpExecutor** executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnDropoutGenMaskV2(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                      const aclrtStream stream);

// V2 with seed and offset on the device.
ACL_FUNC_VISIBILITY aclnnStatus aclnnDropoutGenMaskV2TensorGetWorkspaceSize(
    const aclIntArray* shape, double prob, const aclTensor* seedTensor, const aclTensor* offsetTensor, int64_t offset,
    aclDataType probDataType, aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnDropoutGenMaskV2Tensor(void* workspace, uint64_t workspaceSize,
                                                            aclOpExecutor* executor, const aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // FUSION_ATTENTION_ACLNNOP_ACLNN_DROPOUT_GEN_MASK_H_
