// Attention forward: aclnnFlashAttentionScore (dense batches) and aclnnFlashAttentionVarLenScore (sequences of
// different lengths, packed). Valid C99 and C++11.
//
// What is computed, for every batch entry b, query head n and query row i, with key/value head m = n / (Nq / Nkv):
//   x(j)         = scaleValue * sum over d of query[b,n,i,d] * key[b,m,j,d]
//   softmaxMax   = M = max of x(j) over the visible keys j
//   softmaxSum   = L = sum of exp(x(j) - M) over the visible keys
//   attentionOut = sum of exp(x(j) - M) / L * value[b,m,j,:] over the visible keys
// Keys that are not visible contribute nothing, whatever bits they hold. Sums are kept in float for every dtype; the
// result is rounded once. Equal inputs give equal bits for any number of threads, and a sequence gives the same bits
// alone, in a batch and packed with others.
//
// Two phases: ...GetWorkspaceSize checks everything, plans, and gives the workspace size and an executor; the second
// function runs the plan on a stream. All tensors, lists and strings may be destroyed between the two, only the data
// has to stay. One executor serves one run, unless aclSetAclOpExecutorRepeatable is called on it. All functions may be
// called from any thread, also the two phases from different ones.
#ifndef FUSION_ATTENTION_ACLNNOP_ACLNN_FLASH_ATTENTION_SCORE_H_
#define FUSION_ATTENTION_ACLNNOP_ACLNN_FLASH_ATTENTION_SCORE_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- What both operators share --------------------------------------------------------------------------------------
//
// Words: B batch, T all tokens of a packed batch, Sq and Skv lengths of query and key, Nq and Nkv their heads, D head
// dimension of query and key, Dv that of value. Nq is a multiple of Nkv (grouped-query attention: consecutive query
// heads share a key/value head); 1 <= Dv <= D <= 768. No size has to be a multiple of anything. Beyond the NPU's
// documented ranges (B up to 2 Mi, T and S up to 1 Mi, Nq up to 256) calls work as long as the softmax statistics stay
// below 1 TiB.
//
// Tensors: device memory, format ND or another plain one. Views with any strides, including 0 for inputs, are legal;
// where the last axis is not contiguous, a packed copy is made in workspace. Outputs must not share memory with each
// other or with inputs (not detected). A null tensor, one without dimensions and one of shape [0] all count as absent;
// so do a null and an empty list.
//
// clang-format off: the formatter breaks the columns
// query, key, value   [in]  FLOAT16, BFLOAT16 or FLOAT, all three the same.
// realShiftOptional   [in]  bias on the scores: not supported yet, must be absent (161002).
// dropMaskOptional    [in]  dropout mask: not supported yet, must be absent (161002).
// paddingMaskOptional [in]  reserved by the interface, never looked at.
// attenMaskOptional   [in]  BOOL or UINT8, not zero = this key is hidden from this query (the opposite of PyTorch's
//                           boolean masks). Absent: everything is visible, and sparseMode, preTokens and nextTokens
//                           have no effect; values that ask for a pattern are then logged as a warning. Shapes: see
//                           each operator.
// prefixOptional      [in]  lengths for prefix patterns (sparseMode 5 and 6); ignored by the other modes.
// scaleValue          [in]  any number that is finite as a float, usually 1 / sqrt(D).
// keepProb            [in]  keep probability of dropout, in (0, 1]. Below 1 without dropMaskOptional there is no
//                           dropout, which is logged as a warning.
// preTokens           [in]  window: keys further than this to the left of the diagonal are hidden. May be negative;
//                           INT64_MAX and INT32_MAX serve as "no limit". Used by sparseMode 0 and 4.
// nextTokens          [in]  the same to the right of the diagonal; 0 is causal. A window of W tokens that ends with the
//                           token itself is sparseMode 4 with preTokens W - 1 and nextTokens 0.
// headNum             [in]  Nq, above 0.
// inputLayout         [in]  text, any letter case.
// innerPrecise        [in]  any value; rows without visible keys are always handled as described below.
// sparseMode          [in]  which keys j a query row i sees when attenMaskOptional is present (default 0):
//                             0  mask(i,j) = 0 and i - preTokens <= j <= i + nextTokens
//                             1  mask(i,j) = 0
//                             2  j <= i: causal, diagonal from the first row and key
//                             3  j <= i + Skv - Sq: causal, diagonal to the last row and key
//                             4  i + Skv - Sq - preTokens <= j <= i + Skv - Sq + nextTokens
//                           Modes 2, 3 and 4 take a mask of shape [2048, 2048] (or [1, 1, 2048, 2048]) that stands for
//                           the pattern; its content is not read, so its data address may be nullptr. Modes 5 to 8 of
//                           the interface are not supported yet (161002).
// softmaxMaxOut       [out] FLOAT, M of every query head and row, stored eight times in a row (one 32-byte block).
// softmaxSumOut       [out] FLOAT, L likewise.
// softmaxOutOut       [out] reserved by the interface: nullptr or an empty tensor; never written.
// attentionOutOut     [out] dtype of query.
// workspaceSize       [out] bytes of device memory for the second phase: scratch for each thread that may run, plus the
//                           packed copies. Grows with D and the number of threads and not with S, except for the
//                           copies. The same for equal arguments and thread setting; 0 when there is nothing to do.
// executor            [out] handle for the second phase.
//
// Rows without a visible key: attentionOut 0, softmaxMax -FLT_MAX, softmaxSum FLT_MAX. Rows of a sequence without any
// key (Skv = 0, or Nkv, D or Dv 0): all three 0. When all three outputs are empty the call succeeds and nothing else is
// checked.
//
// Returned by ...GetWorkspaceSize. On failure *workspaceSize is 0, *executor is nullptr, outputs are untouched, and
// aclGetRecentErrMsg() tells the argument, its value and the rule.
//   0       success
//   161001  a required pointer is null: query, key, value, inputLayout, executor, workspaceSize, softmaxMaxOut,
//           softmaxSumOut, attentionOutOut
//   161002  any other wrong argument: dtype, format, number of dimensions, shape, layout, headNum, keepProb, scaleValue,
//           list, mask, window, unsupported option; a view that exceeds its storage; output views whose elements
//           overlap; a tensor with elements that the call needs but without a data address
//   561000  the environment variable ASCEND_CPU_ISA asks for an instruction set that the machine or the build lacks
// Returned by the second phase:
//   161001  executor is null, or workspace is null although workspaceSize is not 0
//   161002  workspaceSize is smaller than promised, or the executor belongs to another operator
//   361001  the stream does not take the work
//   561000  the executor has been used before
// clang-format on

// ---- Dense batches --------------------------------------------------------------------------------------------------
//
// inputLayout   query           key              value             attentionOutOut
// "BSH"         [B, Sq, Nq*D]   [B, Skv, Nkv*D]  [B, Skv, Nkv*Dv]  [B, Sq, Nq*Dv]     H = heads x head dimension
// "SBH"         [Sq, B, Nq*D]   [Skv, B, Nkv*D]  [Skv, B, Nkv*Dv]  [Sq, B, Nq*Dv]
// "BSND"        [B, Sq, Nq, D]  [B, Skv, Nkv, D] [B, Skv, Nkv, Dv] [B, Sq, Nq, Dv]
// "BNSD"        [B, Nq, Sq, D]  [B, Nkv, Skv, D] [B, Nkv, Skv, Dv] [B, Nq, Sq, Dv]
// softmaxMaxOut and softmaxSumOut are [B, Nq, Sq, 8] for all of them.
//
// headNum defines D for BSH and SBH (the last dimension of query is a multiple of it) and must equal Nq for the others.
// attenMaskOptional for sparseMode 0 and 1: [B, Nq, Sq, Skv], [B, 1, Sq, Skv], [1, 1, Sq, Skv] or [Sq, Skv].
// Windows of sparseMode 0 and 4 that lie beside the whole Sq x Skv matrix are refused.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionScoreGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* realShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);

// Runs what phase one planned. workspace holds workspaceSize bytes, any contents; nullptr when the size is 0.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionScore(void* workspace, uint64_t workspaceSize,
                                                         aclOpExecutor* executor, const aclrtStream stream);

// ---- Sequences of different lengths ---------------------------------------------------------------------------------
//
// inputLayout is "TND": the sequences lie one after another along T.
//   query [Tq, Nq, D], key [Tkv, Nkv, D], value [Tkv, Nkv, Dv], attentionOutOut [Tq, Nq, Dv]
//   softmaxMaxOut, softmaxSumOut: [Tq, Nq, 8], or any shape with last dimension 8 and as many elements
//
// actualSeqQLenOptional, actualSeqKvLenOptional: required, equally long host lists with the cumulative end of each
// sequence: lengths 2, 2, 0, 2 are [2, 4, 4, 6]. Lengths of 0 are legal, so a leading 0 means an empty first sequence.
// Zeros at the end mean sequences that take no part. Otherwise the ends may not decrease, and none exceeds T. Rows of T
// behind the last end get zeros in all three outputs; without zeros at the end of the list a warning is logged, because
// passing lengths instead of ends is a frequent mistake.
//
// Statistics lie in one block for each sequence: entry (sequence b, head n, local row i) starts at element
// (start_b * Nq + n * Sq_b + i) * 8, with start_b the row of T where the sequence starts.
//
// attenMaskOptional for sparseMode 0 and 1, with local rows and keys of each sequence:
//   [maxSq, maxSkv]      one mask for all; shorter sequences use its top left part
//   [sumSq, sumSkv]      sequence b uses the block that starts at (start of its rows, start of its keys)
//   [1, 1, maxSq, maxSkv], [B, 1, maxSq, maxSkv], [B, Nq, maxSq, maxSkv]   with B the length of the lists
//
// Windows, for sequences with rows and keys. Mode 0: nextTokens >= 0, preTokens >= Sq - Skv, and nextTokens >=
// -preTokens. Mode 3: Sq <= Skv. Mode 4: preTokens >= 0, preTokens + nextTokens >= 0, nextTokens >= Sq - Skv.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionVarLenScoreGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* realShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, double scaleValue, double keepProb, int64_t preTokens,
    int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode,
    const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut,
    const aclTensor* attentionOutOut, uint64_t* workspaceSize, aclOpExecutor** executor);

// Runs what phase one planned. workspace holds workspaceSize bytes, any contents; nullptr when the size is 0.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionVarLenScore(void* workspace, uint64_t workspaceSize,
                                                               aclOpExecutor* executor, const aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // FUSION_ATTENTION_ACLNNOP_ACLNN_FLASH_ATTENTION_SCORE_H_
