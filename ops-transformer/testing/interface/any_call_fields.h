// Which field of a Call goes to which argument: for whoever turns calls into arguments in memory.
#pragma once

#include <algorithm>
#include <iterator>

#include "any_call.h"

namespace flash_attention::testing {

// The tensors of a call and where they go. The position is the number from which a tensor's noise follows.
struct TensorField {
    Tensor Call::*from;
    const aclTensor* ScoreArguments::*to;
};
inline constexpr TensorField kTensors[] = {
    {&Call::query, &ScoreArguments::query},
    {&Call::key, &ScoreArguments::key},
    {&Call::value, &ScoreArguments::value},
    {&Call::query_rope, &ScoreArguments::query_rope},
    {&Call::key_rope, &ScoreArguments::key_rope},
    {&Call::real_shift, &ScoreArguments::real_shift},
    {&Call::drop_mask, &ScoreArguments::drop_mask},
    {&Call::padding_mask, &ScoreArguments::padding_mask},
    {&Call::mask, &ScoreArguments::atten_mask},
    {&Call::d_scale_q, &ScoreArguments::d_scale_q},
    {&Call::d_scale_k, &ScoreArguments::d_scale_k},
    {&Call::d_scale_v, &ScoreArguments::d_scale_v},
    {&Call::sink, &ScoreArguments::sink},
    {&Call::max, &ScoreArguments::max},
    {&Call::sum, &ScoreArguments::sum},
    {&Call::softmax_out, &ScoreArguments::softmax_out},
    {&Call::out, &ScoreArguments::out},
};

// Those that only backward has.
inline constexpr TensorField kGradTensors[] = {
    {&Call::dy, &ScoreArguments::dy},
    {&Call::d_scale_dy, &ScoreArguments::d_scale_dy},
    {&Call::d_scale_o, &ScoreArguments::d_scale_o},
    {&Call::dq, &ScoreArguments::dq},
    {&Call::dk, &ScoreArguments::dk},
    {&Call::dv, &ScoreArguments::dv},
    {&Call::dq_rope, &ScoreArguments::dq_rope},
    {&Call::dk_rope, &ScoreArguments::dk_rope},
    {&Call::dpse, &ScoreArguments::dpse},
    {&Call::dsink, &ScoreArguments::dsink},
};
inline constexpr Tensor Call::*kGradients[] = {&Call::dq,      &Call::dk,   &Call::dv,   &Call::dq_rope,
                                               &Call::dk_rope, &Call::dpse, &Call::dsink};

struct ListField {
    List Call::*from;
    const aclIntArray* ScoreArguments::*to;
};
inline constexpr ListField kLists[] = {
    {&Call::prefix, &ScoreArguments::prefix},     {&Call::q_ends, &ScoreArguments::q_ends},
    {&Call::kv_ends, &ScoreArguments::kv_ends},   {&Call::q_start, &ScoreArguments::q_start},
    {&Call::kv_start, &ScoreArguments::kv_start},
};

// Including softmaxOut of forward, which is never written.
inline bool is_output(Tensor Call::*field, bool backward) {
    if (backward) return std::find(std::begin(kGradients), std::end(kGradients), field) != std::end(kGradients);
    return field == &Call::max || field == &Call::sum || field == &Call::softmax_out || field == &Call::out;
}

// Whether the version has the argument at all, of those that only backward has.
inline bool has_argument(const VersionTraits& version, Tensor Call::*field) {
    if (field == &Call::dq_rope || field == &Call::dk_rope) return version.rope;
    if (field == &Call::dsink) return version.sink;
    if (field == &Call::d_scale_dy || field == &Call::d_scale_o) return version.everything;
    return version.backward;
}

inline void copy_scalars(const Call& call, ScoreArguments& arguments) {
    arguments.scale = call.scale;
    arguments.keep_prob = call.keep_prob;
    arguments.pre = call.pre;
    arguments.next = call.next;
    arguments.head_num = call.head_num;
    arguments.layout = const_cast<char*>(call.layout);
    arguments.inner_precise = call.inner_precise;
    arguments.sparse_mode = call.sparse_mode;
    arguments.out_dtype = call.out_dtype;
    arguments.pse_type = call.pse_type;
    arguments.softmax_out_layout = const_cast<char*>(call.softmax_out_layout);
    arguments.seed = call.seed;
    arguments.offset = call.offset;
}

}  // namespace flash_attention::testing
