// Layout strings to axes: after this nobody needs to know whether a tensor was BSH or BNSD.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "opbase/api.h"
#include "opbase/tensor.h"

namespace opbase {

enum class Layout { kBSH, kSBH, kBSND, kBNSD, kTND };

// "BSH", "SBH", "BSND", "BNSD" or "TND" in any letter case; nothing for other texts.
OPBASE_API std::optional<Layout> parse_layout(std::string_view text) noexcept;
OPBASE_API std::string_view layout_name(Layout layout) noexcept;
// Number of dimensions that the layout needs: its letters.
OPBASE_API int64_t layout_rank(Layout layout) noexcept;

// A tensor as batch x sequence x heads x head dimension, with the element strides of each axis.
// TND has batch 1 and sequence = T.
struct BsndView {
    int64_t batch, seq, heads, dim;
    int64_t batch_stride, seq_stride, head_stride, dim_stride;
    bool operator==(const BsndView&) const = default;
};

// `heads` splits the H axis of BSH and SBH (H = heads x dim, which the caller has checked) and is ignored elsewhere.
// Pre: tensor.rank() == layout_rank(layout).
OPBASE_API BsndView as_bsnd(const Tensor& tensor, Layout layout, int64_t heads);

}  // namespace opbase
