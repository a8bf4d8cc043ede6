// Attention forward: aclnnFlashAttentionScore (dense batches) and aclnnFlashAttentionVarLenScore (sequences of
// different lengths, packed), in all their versions. Valid C99 and C++11.
//
// What is computed, for every batch entry b, query head n and query row i, with key/value head m = n / (Nq / Nkv):
//   r(j)         = sum over d of query[b,n,i,d] * key[b,m,j,d]  (+ the same sum over the rope parts)
//   x(j)         = scaleValue * (r(j) + bias(j)) for pseType 1,  scaleValue * r(j) + bias(j) for pseType 0, 2 and 3
//   softmaxMax   = M = max of x(j) over the visible keys j, and of the sink
//   softmaxSum   = L = sum of exp(x(j) - M) over the visible keys, plus exp(sink - M)
//   attentionOut = sum of exp(x(j) - M) / L * keep(b,n,i,j) / keepProb * value[b,m,j,:] over the visible keys
// Bias, rope parts, sink and dropout (keep) take part only when their tensors are given. Keys that are not visible
// contribute nothing, whatever bits they hold; a visible NaN or infinity gives what the formulas give. Sums are kept in
// float for every dtype; the result is rounded once. Equal inputs give equal bits for any number of threads, and a
// sequence gives the same bits alone, in a batch and packed with others. Scores have to be finite as floats: r(j) that
// overflows gives an infinity or NaN even where a small scaleValue would bring it back; so do values whose weighted sum
// overflows before it is divided by L and keepProb.
//
// Two phases: ...GetWorkspaceSize checks everything, plans, and gives the workspace size and an executor; the second
// function runs the plan on a stream. All tensors, lists and strings may be destroyed between the two, only the data
// has to stay. One executor serves one run, unless aclSetAclOpExecutorRepeatable is called on it. All functions may be
// called from any thread, also the two phases from different ones.
//
// Which function has which arguments, besides those of all:
//
//   function                          layouts                 adds
//   aclnnFlashAttentionScore          BSH, SBH, BSND, BNSD
//   aclnnFlashAttentionScoreV2        the same                qStartIdx, kvStartIdx, pseType
//   aclnnFlashAttentionScoreV3        the same                V2 and sink
//   aclnnFlashAttentionScoreV4        the same and TND        V3 and rope parts, lists, softmaxOutLayout, outDtype
//   aclnnFlashAttentionVarLenScore    TND                     lists
//   aclnnFlashAttentionVarLenScoreV2  TND                     lists, qStartIdx, kvStartIdx, pseType
//   aclnnFlashAttentionVarLenScoreV3  TND                     V2 and rope parts
//   aclnnFlashAttentionVarLenScoreV4  TND                     lists, softmaxOutLayout (no pseType)
//   aclnnFlashAttentionVarLenScoreV5  TND                     V3 and sink, softmaxOutLayout
// A version without an argument computes what the others compute with its default.
#ifndef FUSION_ATTENTION_ACLNNOP_ACLNN_FLASH_ATTENTION_SCORE_H_
#define FUSION_ATTENTION_ACLNNOP_ACLNN_FLASH_ATTENTION_SCORE_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- What all of them share -----------------------------------------------------------------------------------------
//
// Words: B batch, T all tokens of a packed batch, Sq and Skv lengths of query and key, Nq and Nkv their heads, D head
// dimension of query and key, Dv that of value. Nq is a multiple of Nkv (grouped-query attention: consecutive query
// heads share a key/value head); 1 <= Dv <= D <= 768. No size has to be a multiple of anything. Beyond the NPU's
// documented ranges (B up to 2 Mi, T and S up to 1 Mi, Nq up to 256) calls work too; the softmax statistics must stay
// below 1 TiB.
//
// Tensors: device memory, format ND or another plain one. Views with any strides, including 0 for inputs, are legal;
// where the last axis is not contiguous - or, for statistics, sink, dropout mask and one-dimensional bias, any - a
// packed copy is made in workspace. Outputs must not share memory with each other or with inputs (not detected). A null
// tensor, one without dimensions and one of shape [0] all count as absent; so do a null and an empty list.
//
// clang-format off: the formatter breaks the columns
// query, key, value   [in]  FLOAT16, BFLOAT16 or FLOAT, all three the same.
// queryRope, keyRope  [in]  optional, both or none: BFLOAT16 [Tq, Nq, Drope] and [Tkv, Nkv, Drope], 1 <= Drope <= D.
//                           Only for TND, BFLOAT16 query, with attenMaskOptional, without bias, with keepProb 1 and
//                           no dropMaskOptional, not for sparseMode 6. Nothing is rotated here: the inputs are.
// realShiftOptional   [in]  bias on the scores ("pse"). pseType 0 and 1: dtype of query, shapes at each operator; -inf
//                           hides its key. pseType 2 and 3: FLOAT slopes [B, Nq] or [Nq].
// dropMaskOptional    [in]  UINT8, packed bits, least significant first, 1 = keep, any shape. Bit number
//                           Nq * (sum of Sq*Skv of earlier batch entries) + (n*Sq + i) * Skv + j belongs to head n, row
//                           i, key j: rows are not padded. Applied for any keepProb.
// paddingMaskOptional [in]  reserved by the interface, never looked at.
// attenMaskOptional   [in]  BOOL or UINT8, not zero = this key is hidden from this query (the opposite of PyTorch's
//                           boolean masks). Absent: everything is visible, and sparseMode, preTokens and nextTokens
//                           have no effect; values that ask for a pattern are then logged as a warning. Shapes: see
//                           each operator.
// sinkOptional        [in]  FLOAT [Nq]: a score for each query head that takes part in the softmax and has no
//                           value row. Neither scaled nor biased. -inf is the same as no sink.
// dScaleQOptional, dScaleKOptional, dScaleVOptional
//                     [in]  quantised attention, which does not exist here: must be absent (161002).
// prefixOptional      [in]  one length for each batch entry, for sparseMode 5 and 6; ignored by the other modes.
// qStartIdxOptional, kvStartIdxOptional
//                     [in]  pseType 2 and 3: the first entry of each shifts the positions of rows and keys. 0 when
//                           absent; if only one list is given both count as 0, which is logged as a warning. At
//                           most 2^60 away from 0. Not looked at with pseType 0 and 1.
// scaleValue          [in]  any number that is finite as a float, usually 1 / sqrt(D); may be 0 or negative.
// keepProb            [in]  keep probability of dropout, in (0, 1]. Below 1 without dropMaskOptional there is no
//                           dropout, which is logged as a warning; ScoreV4 makes the bits itself (see there).
// preTokens           [in]  window: keys further than this to the left of the diagonal are hidden. May be negative;
//                           INT64_MAX and INT32_MAX serve as "no limit". Used by sparseMode 0, 4, 7 and 8.
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
//                             5  mask(i,j) = 0 and (j <= i + Skv - Sq or j < prefix[b]); dense batches only. Without a
//                                valid list of prefixes it is mode 1, which is logged as a warning
//                             6  j <= i + Skv - Sq or j < prefix[b]
//                             7  TND only: mode 4 for the last sequence that has rows, mode 3 for the others
//                             8  TND only: mode 4 for the first sequence that has rows, mode 2 for the others
//                           Modes 2, 3, 4, 7 and 8 take a mask of shape [2048, 2048] (or [1, 1, 2048, 2048]), mode 6
//                           one of [3072, 2048] (or [1, 1, 3072, 2048]), that stands for the pattern; its content is
//                           not read, so its data address may be nullptr.
// outDtype            [in]  0, the dtype of query; other values belong to quantised attention (161002).
// pseType             [in]  how realShiftOptional enters (default 1): 0 and 1 as a tensor, see the formulas; 2 as
//                           -slope * |distance|, 3 as -slope * sqrt(|distance|) with distance
//                           (j + kvStartIdx) - (i + qStartIdx). 0, 2 and 3 need realShiftOptional.
// softmaxOutLayout    [in]  nullptr or "": statistics of TND lie in one block for each sequence; "same_as_input": in
//                           the order of the tokens. Other texts count as "", which is logged as a warning.
// seed, offset        [in]  of dropout without a mask (see ScoreV4); not used otherwise.
// softmaxMaxOut       [out] FLOAT, M of every query head and row, stored eight times in a row (one 32-byte block).
// softmaxSumOut       [out] FLOAT, L likewise.
// softmaxOutOut       [out] reserved by the interface: nullptr or an empty tensor; never written.
// attentionOutOut     [out] dtype of query.
// workspaceSize       [out] bytes of device memory for the second phase:
//                             at most 63 + slots * (114688 + 2304 * (D + Drope) + 3840 * Dv) + partial results
//                             + packed copies, D, Drope and Dv rounded up to multiples of 16; less for FLOAT and for
//                             narrower instruction sets; slots = the number of threads, or less for little work.
//                             Partial results: 64 + 4 * Dv for each of Nq * Sq * C, for sequences with at most 12 rows
//                             that see more than 1024 keys; C = 2 to 64, about their number of keys / 1024.
//                           Nothing grows with Sq * Skv; copies are as large as the views that need them. The same for
//                           equal arguments and thread setting; 0 when there is nothing to do.
// executor            [out] handle for the second phase.
//
// Rows without a visible key: attentionOut 0, softmaxMax -FLT_MAX, softmaxSum FLT_MAX; with a sink M is the sink and L
// is 1. Rows of a sequence without any key (Skv = 0, or Nkv, D or Dv 0): all three 0. When all three outputs are empty
// the call succeeds and nothing else is checked.
//
// Returned by ...GetWorkspaceSize. On failure *workspaceSize is 0, *executor is nullptr, outputs are untouched, and
// aclGetRecentErrMsg() tells the argument, its value and the rule.
//   0       success
//   161001  a required pointer is null: query, key, value, inputLayout, executor, workspaceSize, softmaxMaxOut,
//           softmaxSumOut, attentionOutOut
//   161002  any other wrong argument: dtype, format, number of dimensions, shape, layout, headNum, keepProb,
//           scaleValue, list, mask, window, bias, dropout mask, sink, rope part, unsupported option; a pointer that
//           becomes required through another argument; a view that exceeds its storage; output views whose elements
//           overlap; a tensor with elements that the call needs but without a data address
//   561000  the environment variable ASCEND_CPU_ISA asks for an instruction set that the machine or the build lacks
//   561101  no memory for the executor
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
//
// attenMaskOptional for sparseMode 0 and 1: [B, Nq, Sq, Skv], [B, 1, Sq, Skv], [1, 1, Sq, Skv] or [Sq, Skv]; for
// sparseMode 5: [B, Nq, Sq, Skv] or [B, 1, Sq, Skv], with B = 1 all four.
// Windows of sparseMode 0 and 4 that lie beside the whole Sq x Skv matrix are refused. prefixOptional of sparseMode 6
// has B entries, each from max(0, Skv - Sq) to Skv.
//
// realShiftOptional for pseType 0 and 1, with B or 1 as first dimension:
//   [B, Nq, Sq, Skv]
//   [B, Nq, 1, Skv]     one row for all query rows
//   [B, Nq, 1024, Skv]  with Sq = Skv > 1024: the last 1024 rows of a bias that depends on j - i only; row i < Sq -
//                       1024 reads row r = i % 1024 at column j + Sq - i - 1024 + r. Needs attenMaskOptional with
//                       sparseMode 0, 2 or 3; a visible key whose column does not exist gives NaN
// pseType 2 and 3 need Sq = Skv.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionScoreGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* realShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionScore(void* workspace, uint64_t workspaceSize,
                                                         aclOpExecutor* executor, const aclrtStream stream);

// The version with qStartIdx, kvStartIdx and pseType.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionScoreV2GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* realShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout,
    int64_t innerPrecise, int64_t sparseMode, int64_t pseType, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionScoreV2(void* workspace, uint64_t workspaceSize,
                                                           aclOpExecutor* executor, const aclrtStream stream);

// V2 with a sink.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionScoreV3GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* realShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclTensor* sinkOptional, const aclIntArray* prefixOptional, const aclIntArray* qStartIdxOptional,
    const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode, int64_t pseType,
    const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut,
    const aclTensor* attentionOutOut, uint64_t* workspaceSize, aclOpExecutor** executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionScoreV3(void* workspace, uint64_t workspaceSize,
                                                           aclOpExecutor* executor, const aclrtStream stream);

// One call for everything, dense or TND: with "TND" the rules of the operators below hold, and the two lists are
// required; with other layouts lists and softmaxOutLayout have no effect, which is logged as a warning. keepProb below
// 1 without dropMaskOptional drops by the bits that aclnnDropoutGenMaskV2 would give for prob = 1.0f - (float)keepProb,
// seed, offset and the dtype of query; no mask is ever in memory, and workspace does not grow.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionScoreV4GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* realShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclTensor* queryRopeOptional, const aclTensor* keyRopeOptional, const aclTensor* dScaleQOptional,
    const aclTensor* dScaleKOptional, const aclTensor* dScaleVOptional, const aclTensor* sinkOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, const aclIntArray* qStartIdxOptional,
    const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode, int64_t outDtype, int64_t pseType,
    char* softmaxOutLayout, int64_t seed, int64_t offset, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionScoreV4(void* workspace, uint64_t workspaceSize,
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
// passing lengths instead of ends is a frequent mistake. B is the length of the lists.
//
// Statistics lie in one block for each sequence: entry (sequence b, head n, local row i) starts at element
// (start_b * Nq + n * Sq_b + i) * 8, with start_b the row of T where the sequence starts. With softmaxOutLayout
// "same_as_input" it starts at element ((start_b + i) * Nq + n) * 8.
//
// attenMaskOptional for sparseMode 0 and 1, with local rows and keys of each sequence:
//   [maxSq, maxSkv]      one mask for all; shorter sequences use its top left part
//   [sumSq, sumSkv]      sequence b uses the block that starts at (start of its rows, start of its keys)
//   [1, 1, maxSq, maxSkv], [B, 1, maxSq, maxSkv], [B, Nq, maxSq, maxSkv]
//
// Windows, for sequences with rows and keys. Mode 0: nextTokens >= 0 (also without such sequences), preTokens >= Sq -
// Skv, and nextTokens >= -preTokens. Mode 3: Sq <= Skv, also of sequences without keys. Mode 4: preTokens >= 0,
// preTokens + nextTokens >= 0, nextTokens >= Sq - Skv. Mode 6: prefixOptional has B entries, each from max(0, Skv - Sq)
// to Skv. Modes 7 and 8, for the sequence that is a band: preTokens >= Skv, nextTokens >= Sq - Skv; mode 7 also
// nextTokens <= 0, and Sq <= Skv for all.
//
// realShiftOptional for pseType 0 and 1, in this order of recognition:
//   first dimension Nq * sumSkv       one row for all rows of a sequence: blocks [Nq, Skv_b], one after another
//   first dimension Nq * sum(Sq*Skv)  blocks [Nq, Sq_b, Skv_b], one after another
//   [B or 1, Nq, 1024, maxSkv]        the last 1024 rows of a bias that depends on j - i only, and each sequence reads
//                                     it from the bottom right corner; every Sq_b = Skv_b, and a causal mask:
//                                     sparseMode 2, 3, 0 with preTokens >= maxSq and nextTokens 0, or 4 with preTokens
//                                     >= maxSkv and nextTokens 0
//   any other shape with as many elements as one of the first two
// pseType 2 and 3: not with sparseMode 7. With sparseMode 8 qStartIdx and kvStartIdx count for the first sequence only,
// where Sq - Skv + qStartIdx - kvStartIdx must be 0, and all others have Sq = Skv.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionVarLenScoreGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* realShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, double scaleValue, double keepProb, int64_t preTokens,
    int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode,
    const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut,
    const aclTensor* attentionOutOut, uint64_t* workspaceSize, aclOpExecutor** executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionVarLenScore(void* workspace, uint64_t workspaceSize,
                                                               aclOpExecutor* executor, const aclrtStream stream);

// The version with qStartIdx, kvStartIdx and pseType.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionVarLenScoreV2GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* realShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, const aclIntArray* qStartIdxOptional,
    const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode, int64_t pseType,
    const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut,
    const aclTensor* attentionOutOut, uint64_t* workspaceSize, aclOpExecutor** executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionVarLenScoreV2(void* workspace, uint64_t workspaceSize,
                                                                 aclOpExecutor* executor, const aclrtStream stream);

// V2 with rope parts.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionVarLenScoreV3GetWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* key, const aclTensor* keyRope,
    const aclTensor* value, const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional, const aclIntArray* actualSeqKvLenOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb,
    int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode,
    int64_t pseType, const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut,
    const aclTensor* attentionOutOut, uint64_t* workspaceSize, aclOpExecutor** executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionVarLenScoreV3(void* workspace, uint64_t workspaceSize,
                                                                 aclOpExecutor* executor, const aclrtStream stream);

// The first version with softmaxOutLayout.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionVarLenScoreV4GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* realShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, double scaleValue, double keepProb, int64_t preTokens,
    int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode,
    char* softmaxOutLayout, const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
    const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut, uint64_t* workspaceSize,
    aclOpExecutor** executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionVarLenScoreV4(void* workspace, uint64_t workspaceSize,
                                                                 aclOpExecutor* executor, const aclrtStream stream);

// Everything: V3 with a sink and softmaxOutLayout.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionVarLenScoreV5GetWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* key, const aclTensor* keyRope,
    const aclTensor* value, const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional, const aclTensor* sinkOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, const aclIntArray* qStartIdxOptional,
    const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode, int64_t pseType,
    char* softmaxOutLayout, const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
    const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut, uint64_t* workspaceSize,
    aclOpExecutor** executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionVarLenScoreV5(void* workspace, uint64_t workspaceSize,
                                                                 aclOpExecutor* executor, const aclrtStream stream);

// An upper bound of V5's workspace for all lists with the same number of entries, on the current thread setting:
// dropMaskOptional and keepProb are not looked at (a mask without gaps needs no workspace). The executor runs the call
// without dropout in aclnnFlashAttentionVarLenScoreV5.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionVarLenScoreV5GetMaxWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* key, const aclTensor* keyRope,
    const aclTensor* value, const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional, const aclTensor* sinkOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, const aclIntArray* qStartIdxOptional,
    const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode, int64_t pseType,
    char* softmaxOutLayout, const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
    const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut, uint64_t* workspaceSize,
    aclOpExecutor** executor);

#ifdef __cplusplus
}
#endif

#endif  // FUSION_ATTENTION_ACLNNOP_ACLNN_FLASH_ATTENTION_SCORE_H_
