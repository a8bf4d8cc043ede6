#include "reference/axes.h"

#include <stdexcept>

namespace flash_attention::reference {

Axes axes_of(const std::string& layout, const std::vector<int64_t>& shape, int64_t heads) {
    Axes a;
    if (layout == "BSH" || layout == "SBH") {
        a.heads = heads;
        a.features = heads == 0 ? 0 : shape[2] / heads;
        a.head_stride = a.features;
        const bool batch_first = layout == "BSH";
        a.batches = shape[batch_first ? 0 : 1];
        a.positions = shape[batch_first ? 1 : 0];
        a.batch_stride = batch_first ? a.positions * shape[2] : shape[2];
        a.position_stride = batch_first ? shape[2] : a.batches * shape[2];
    } else if (layout == "BSND") {
        a = {shape[0], shape[1], shape[2], shape[3], shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3]};
    } else if (layout == "BNSD") {
        a = {shape[0], shape[2], shape[1], shape[3], shape[1] * shape[2] * shape[3], shape[3], shape[2] * shape[3]};
    } else if (layout == "TND") {
        a = {1, shape[0], shape[1], shape[2], 0, shape[1] * shape[2], shape[2]};
    } else {
        throw std::invalid_argument("reference: unknown layout " + layout);
    }
    return a;
}

}  // namespace flash_attention::reference
