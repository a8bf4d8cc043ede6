// Attention backward: aclnnFlashAttentionScoreGrad (dense batches) and aclnnFlashAttentionUnpaddingScoreGrad (sequences
// of different lengths, packed), in all their versions. Valid C99 and C++11.
//
// The gradients of aclnn_flash_attention_score.h, whose words, shapes and rules hold here too; this header says what
// differs. What is computed, from the inputs of forward, the gradient dy of its output, and its results M
// (softmaxMax), L (softmaxSum) and O (attentionIn), for every batch entry, query head n and row i:
//   p(j)   = exp(x(j) - M) / L for visible keys j, 0 for the others      (x(j): the scores, as in forward)
//   k(j)   = keep(b,n,i,j) / keepProb with dropout, otherwise 1
//   delta  = sum over d of dy[i,d] * O[i,d]
//   dS(j)  = p(j) * (k(j) * (sum over d of dy[i,d] * value[j,d]) - delta)
//   dq[i]  = scaleValue * sum over j of dS(j) * key[j]                          dqRope likewise, with keyRope
//   dk[j]  = scaleValue * sum over the rows i of dS(j) * query[i]               dkRope likewise, with queryRope
//   dv[j]  = sum over the rows i of p(j) * k(j) * dy[i]
//   dpse   = scaleValue * dS for pseType 1, dS for pseType 0, summed over the axes that the bias is repeated along
//   dsink  = - sum over batch entries and rows of exp(sink - M) / L * delta
// Gradients of key and value are sums over the query heads that share them. Pairs that are not visible contribute
// nothing, whatever bits they hold; a visible NaN or infinity gives NaN in every gradient that uses it. Sums are kept
// in float for every dtype; results are rounded once. Equal inputs give equal bits for any number of threads, and a
// sequence gives the same bits alone, in a batch and packed with others.
//
// scaleValue, keepProb, windows, masks, lists, bias and dropout bits must be those of the forward call: other ones give
// wrong gradients, which cannot be detected. softmaxMax, softmaxSum and attentionIn are used as given, so they may be
// the merged ones of several partial calls.
//
// Two phases, lifetimes and threads: as in forward. The order of the arguments differs: compare V3 and V5 of Unpadding
// with the others, and V4, whose softmaxInLayout stands behind the outputs.
//
// clang-format off: the formatter breaks the columns
//   function                                 layouts                 adds
//   aclnnFlashAttentionScoreGrad             BSH, SBH, BSND, BNSD
//   aclnnFlashAttentionScoreGradV2           the same                qStartIdx, kvStartIdx, pseType
//   aclnnFlashAttentionScoreGradV3           the same                V2 and sink
//   aclnnFlashAttentionScoreGradV4           the same and TND        V3 and rope parts, lists, softmaxInLayout, outDtype, seed, offset
//   aclnnFlashAttentionUnpaddingScoreGrad    TND                     lists
//   aclnnFlashAttentionUnpaddingScoreGradV2  TND                     lists, qStartIdx, kvStartIdx, pseType
//   aclnnFlashAttentionUnpaddingScoreGradV3  TND                     V2 and rope parts
//   aclnnFlashAttentionUnpaddingScoreGradV4  TND                     lists, softmaxInLayout (no pseType)
//   aclnnFlashAttentionUnpaddingScoreGradV5  TND                     V3 and sink, softmaxInLayout
// clang-format on
// A version without an argument computes what the others compute with its default.
#ifndef FUSION_ATTENTION_ACLNNOP_ACLNN_FLASH_ATTENTION_SCORE_GRAD_H_
#define FUSION_ATTENTION_ACLNNOP_ACLNN_FLASH_ATTENTION_SCORE_GRAD_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- What all of them share -----------------------------------------------------------------------------------------
//
// Arguments that are not listed are those of forward: same meaning, dtypes, shapes, defaults and rules.
//
// Tensors: as in forward. Inputs and outputs may be views with any strides; a stride of 0 is legal in inputs (dy is
// often one number, expanded). Outputs must not share memory with each other or with inputs (not detected).
//
// clang-format off: the formatter breaks the columns
// query, keyIn, value [in]  FLOAT16, BFLOAT16 or FLOAT, all three and dy the same.
// queryRope, keyInRope, or queryRopeOptional, keyRopeOptional
//                     [in]  rope parts, as in forward.
// dy                  [in]  dtype of query, shape of the output of forward: that of query with Dv in the place of D.
// pseShiftOptional    [in]  the bias, which forward calls realShiftOptional.
// dropMaskOptional    [in]  as in forward, and applied for any keepProb as there. Required when keepProb is below 1,
//                           except for ScoreGradV4 (see there).
// softmaxMaxOptional, softmaxSumOptional
//                     [in]  required. FLOAT, [B, Nq, Sq, 8]; TND: [T, Nq, 8]. M and L of forward; the first of the eight
//                           copies is read.
// softmaxInOptional   [in]  reserved by the interface, never looked at.
// attentionInOptional [in]  required. O of forward, dtype of query, shape of dy.
// sinkInOptional      [in]  FLOAT [Nq], as in forward. With a FLOAT query a warning is logged: it is computed here, but
//                           the NPU refuses it.
// dScaleQOptional, dScaleKOptional, dScaleVOptional, dScaleDyOptional, dScaleOOptional
//                     [in]  quantised attention, which does not exist here: must be absent (161002).
// softmaxInLayout     [in]  how the statistics of TND lie; the same text as softmaxOutLayout of forward: nullptr or "",
//                           one block for each sequence, or "same_as_input", in the order of the tokens. Other texts
//                           are refused. Dense batches: must be nullptr or "".
// dqOut, dkOut, dvOut [out] dtype and shape of query, keyIn, value. Rows of T behind the last sequence get zeros, and
//                           so do rows without visible key, and keys that no row sees.
// dqRopeOut, dkRopeOut
//                     [out] BFLOAT16, shapes of the rope parts; required with them.
// dpseOut             [out] optional: nullptr, an empty tensor, or one of the shape of pseShiftOptional and the dtype of
//                           query. The true gradient for [B, Nq, Sq, Skv], [1, Nq, Sq, Skv], [B, Nq, 1, Skv],
//                           [1, Nq, 1, Skv] and, of TND, the flat forms (Nq * sum(Sq*Skv) or Nq * sumSkv elements; those
//                           behind them get zeros). It costs a pass of its own over the scores. Zeros, and a warning in
//                           the log, for the compressed form with 1024 rows and for the slopes of pseType 2 and 3 (there
//                           the dtype may also be FLOAT). The NPU never writes this tensor.
// dsinkOut            [out] FLOAT [Nq]; required with sinkInOptional.
//   An output that belongs to an absent input (dqRopeOut, dkRopeOut, dpseOut, dsinkOut) may be absent; if it is given,
//   it gets zeros, whatever its shape.
// workspaceSize       [out] bytes of device memory for the second phase:
//                             at most 63 + slots * (200704 + 3072 * (D + Drope) + 1920 * Dv + sums) + partial dq
//                             + packed copies, D, Drope and Dv rounded up to multiples of 16; less for narrower
//                             instruction sets; slots = the number of threads, or less for little work.
//                             Sums: 8 * (D + Drope + Dv) for each key of the longest sequence, but of no more than 2048;
//                             at least 737344 when dpse is wanted.
//                             Partial dq, when a sequence has more than 2048 keys: 4 * (D + Drope) for each query row of
//                             all heads (rows of a head rounded up to a multiple of 192), and for each of C =
//                             min(8, ceil(Skv / 2048)) chunks of keys, where chunks go to different threads: when there
//                             are fewer than 4 heads of keys for each thread, and not as many for all threads. Else only
//                             of the Nq / Nkv heads of one slot, twice when Skv > 16384.
//                           Nothing grows with Sq * Skv; copies are as large as the views that need them. The same for
//                           equal arguments and thread setting; 0 when there is nothing to do.
// executor            [out] handle for the second phase.
//
// When nothing can be attended to (Sq, Skv, Nkv, D or Dv is 0), all gradients are 0. When all outputs are empty or
// absent the call succeeds, and nothing is checked but the pointers below.
//
// Returned by ...GetWorkspaceSize. On failure *workspaceSize is 0, *executor is nullptr, outputs are untouched, and
// aclGetRecentErrMsg() tells the argument, its value and the rule.
//   0       success
//   161001  a required pointer is null: query, keyIn, value, dy, attentionInOptional, dqOut, dkOut, dvOut,
//           workspaceSize, executor, inputLayout; softmaxMaxOptional and softmaxSumOptional when there is something to compute;
//           dsinkOut with sinkInOptional
//   161002  any other wrong argument, as in forward. Besides: dy, attentionInOptional or gradients of other shapes or
//           dtypes; statistics of another shape; softmaxInLayout; keepProb below 1 without dropMaskOptional; lists that
//           leave tokens of both query and keyIn uncovered without a 0 at the end of a list
//   561000  the environment variable ASCEND_CPU_ISA asks for an instruction set that the machine or the build lacks
//   561101  no memory for the executor
// Returned by the second phase: as in forward.
// clang-format on

// ---- Dense batches --------------------------------------------------------------------------------------------------
//
// inputLayout   query, dqOut    keyIn, dkOut     value, dvOut      dy, attentionInOptional
// "BSH"         [B, Sq, Nq*D]   [B, Skv, Nkv*D]  [B, Skv, Nkv*Dv]  [B, Sq, Nq*Dv]     H = heads x head dimension
// "SBH"         [Sq, B, Nq*D]   [Skv, B, Nkv*D]  [Skv, B, Nkv*Dv]  [Sq, B, Nq*Dv]
// "BSND"        [B, Sq, Nq, D]  [B, Skv, Nkv, D] [B, Skv, Nkv, Dv] [B, Sq, Nq, Dv]
// "BNSD"        [B, Nq, Sq, D]  [B, Nkv, Skv, D] [B, Nkv, Skv, Dv] [B, Nq, Sq, Dv]
// Masks, windows, prefixes and biases: as for the dense batches of forward.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionScoreGradGetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value, const aclTensor* dy,
    const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional,
    const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional, const aclIntArray* prefixOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout,
    int64_t innerPrecise, int64_t sparseMode, const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, uint64_t* workspaceSize, aclOpExecutor** executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionScoreGrad(void* workspace, uint64_t workspaceSize,
                                                             aclOpExecutor* executor, const aclrtStream stream);

// The version with qStartIdx, kvStartIdx and pseType.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionScoreGradV2GetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value, const aclTensor* dy,
    const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional,
    const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional, const aclIntArray* prefixOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb,
    int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode,
    int64_t pseType, const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut, const aclTensor* dpseOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionScoreGradV2(void* workspace, uint64_t workspaceSize,
                                                               aclOpExecutor* executor, const aclrtStream stream);

// V2 with a sink and its gradient.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionScoreGradV3GetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value, const aclTensor* dy,
    const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional,
    const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional, const aclTensor* sinkInOptional,
    const aclIntArray* prefixOptional, const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout,
    int64_t innerPrecise, int64_t sparseMode, int64_t pseType, const aclTensor* dqOut, const aclTensor* dkOut,
    const aclTensor* dvOut, const aclTensor* dpseOut, const aclTensor* dsinkOut, uint64_t* workspaceSize,
    aclOpExecutor** executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionScoreGradV3(void* workspace, uint64_t workspaceSize,
                                                               aclOpExecutor* executor, const aclrtStream stream);

// One call for everything, dense or TND: with "TND" the rules of the operators below hold, and the two lists are
// required; with other layouts the lists have no effect, which is logged as a warning. keepProb below 1 without
// dropMaskOptional drops by the same bits as ScoreV4 with the same seed and offset.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionScoreGradV4GetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value, const aclTensor* dy,
    const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional,
    const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional, const aclTensor* sinkInOptional,
    const aclTensor* queryRopeOptional, const aclTensor* keyRopeOptional, const aclTensor* dScaleQOptional,
    const aclTensor* dScaleKOptional, const aclTensor* dScaleVOptional, const aclTensor* dScaleDyOptional,
    const aclTensor* dScaleOOptional, const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, const aclIntArray* qStartIdxOptional,
    const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, char* softmaxInLayout, int64_t innerPrecise, int64_t sparseMode,
    int64_t pseType, int64_t seed, int64_t offset, int64_t outDtype, const aclTensor* dqOut, const aclTensor* dkOut,
    const aclTensor* dvOut, const aclTensor* dqRopeOut, const aclTensor* dkRopeOut, const aclTensor* dpseOut,
    const aclTensor* dsinkOut, uint64_t* workspaceSize, aclOpExecutor** executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionScoreGradV4(void* workspace, uint64_t workspaceSize,
                                                               aclOpExecutor* executor, const aclrtStream stream);

// ---- Sequences of different lengths ---------------------------------------------------------------------------------
//
// inputLayout is "TND": the sequences lie one after another along T.
//   query, dqOut [Tq, Nq, D]; keyIn, dkOut [Tkv, Nkv, D]; value, dvOut [Tkv, Nkv, Dv]; dy, attentionInOptional
//   [Tq, Nq, Dv]
// Lists, masks, windows, prefixes and biases: as for the packed sequences of forward; how statistics lie too. Unlike
// there, both lists together may leave tokens at the end of query and keyIn uncovered only if one of them ends in 0.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionUnpaddingScoreGradGetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value, const aclTensor* dy,
    const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional,
    const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional, const aclIntArray* actualSeqKvLenOptional, double scaleValue,
    double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise,
    int64_t sparseMode, const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, uint64_t* workspaceSize, aclOpExecutor** executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionUnpaddingScoreGrad(void* workspace, uint64_t workspaceSize,
                                                                      aclOpExecutor* executor,
                                                                      const aclrtStream stream);

// The version with qStartIdx, kvStartIdx and pseType.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV2GetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value, const aclTensor* dy,
    const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional,
    const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional, const aclIntArray* actualSeqKvLenOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb,
    int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode,
    int64_t pseType, const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut, const aclTensor* dpseOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV2(void* workspace, uint64_t workspaceSize,
                                                                        aclOpExecutor* executor,
                                                                        const aclrtStream stream);

// V2 with rope parts and their gradients.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV3GetWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* keyIn, const aclTensor* keyInRope,
    const aclTensor* value, const aclTensor* dy, const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional,
    const aclTensor* softmaxSumOptional, const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, const aclIntArray* qStartIdxOptional,
    const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode, int64_t pseType,
    const aclTensor* dqOut, const aclTensor* dqRopeOut, const aclTensor* dkOut, const aclTensor* dkRopeOut,
    const aclTensor* dvOut, const aclTensor* dpseOut, uint64_t* workspaceSize, aclOpExecutor** executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV3(void* workspace, uint64_t workspaceSize,
                                                                        aclOpExecutor* executor,
                                                                        const aclrtStream stream);

// The first version with softmaxInLayout, which stands behind the outputs.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV4GetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value, const aclTensor* dy,
    const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional,
    const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional, const aclIntArray* actualSeqKvLenOptional, double scaleValue,
    double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise,
    int64_t sparseMode, const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, char* softmaxInLayout, uint64_t* workspaceSize, aclOpExecutor** executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV4(void* workspace, uint64_t workspaceSize,
                                                                        aclOpExecutor* executor,
                                                                        const aclrtStream stream);

// Everything: V3 with a sink, its gradient, and softmaxInLayout.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV5GetWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* keyIn, const aclTensor* keyInRope,
    const aclTensor* value, const aclTensor* dy, const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional,
    const aclTensor* softmaxSumOptional, const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional,
    const aclTensor* sinkInOptional, const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, const aclIntArray* qStartIdxOptional,
    const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode, int64_t pseType,
    char* softmaxInLayout, const aclTensor* dqOut, const aclTensor* dqRopeOut, const aclTensor* dkOut,
    const aclTensor* dkRopeOut, const aclTensor* dvOut, const aclTensor* dpseOut, const aclTensor* dsinkOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV5(void* workspace, uint64_t workspaceSize,
                                                                        aclOpExecutor* executor,
                                                                        const aclrtStream stream);

// An upper bound of V5's workspace for all lists with the same number of entries, on the current thread setting.
// dropMaskOptional must be absent (161002); keepProb is not looked at. The executor runs the call without dropout in
// aclnnFlashAttentionUnpaddingScoreGradV5.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV5GetMaxWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* keyIn, const aclTensor* keyInRope,
    const aclTensor* value, const aclTensor* dy, const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional,
    const aclTensor* softmaxSumOptional, const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional,
    const aclTensor* sinkInOptional, const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, const aclIntArray* qStartIdxOptional,
    const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode, int64_t pseType,
    char* softmaxInLayout, const aclTensor* dqOut, const aclTensor* dqRopeOut, const aclTensor* dkOut,
    const aclTensor* dkRopeOut, const aclTensor* dvOut, const aclTensor* dpseOut, const aclTensor* dsinkOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);

#ifdef __cplusplus
}
#endif

#endif  // FUSION_ATTENTION_ACLNNOP_ACLNN_FLASH_ATTENTION_SCORE_GRAD_H_
