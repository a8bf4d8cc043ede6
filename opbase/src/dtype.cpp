#include "opbase/dtype.h"

#include <fmt/format.h>

#include <string_view>

namespace opbase {
namespace {

struct FormatFacts {
    aclFormat format;
    bool plain;
    std::string_view name;
};

constexpr FormatFacts kFormats[] = {
    {ACL_FORMAT_ND, true, "ND"},
    {ACL_FORMAT_NCHW, true, "NCHW"},
    {ACL_FORMAT_NHWC, true, "NHWC"},
    {ACL_FORMAT_HWCN, true, "HWCN"},
    {ACL_FORMAT_NDHWC, true, "NDHWC"},
    {ACL_FORMAT_NCDHW, true, "NCDHW"},
    {ACL_FORMAT_NC, true, "NC"},
    {ACL_FORMAT_NCL, true, "NCL"},
    {ACL_FORMAT_NC1HWC0, false, "NC1HWC0"},
    {ACL_FORMAT_FRACTAL_Z, false, "FRACTAL_Z"},
    {ACL_FORMAT_NC1HWC0_C04, false, "NC1HWC0_C04"},
    {ACL_FORMAT_FRACTAL_NZ, false, "FRACTAL_NZ"},
    {ACL_FORMAT_NDC1HWC0, false, "NDC1HWC0"},
    {ACL_FRACTAL_Z_3D, false, "FRACTAL_Z_3D"},
    {ACL_FORMAT_FRACTAL_NZ_C0_16, false, "FRACTAL_NZ_C0_16"},
    {ACL_FORMAT_FRACTAL_NZ_C0_32, false, "FRACTAL_NZ_C0_32"},
    {ACL_FORMAT_FRACTAL_NZ_C0_2, false, "FRACTAL_NZ_C0_2"},
    {ACL_FORMAT_FRACTAL_NZ_C0_4, false, "FRACTAL_NZ_C0_4"},
    {ACL_FORMAT_FRACTAL_NZ_C0_8, false, "FRACTAL_NZ_C0_8"},
    {ACL_FORMAT_UNDEFINED, false, "UNDEFINED"},
};

const FormatFacts* find(aclFormat format) {
    for (const FormatFacts& facts : kFormats) {
        if (facts.format == format) return &facts;
    }
    return nullptr;
}

}  // namespace

std::string format_name(aclFormat format) {
    const FormatFacts* facts = find(format);
    return facts != nullptr ? std::string(facts->name) : fmt::format("unknown ({})", static_cast<int>(format));
}

bool is_plain_format(aclFormat format) noexcept {
    const FormatFacts* facts = find(format);
    return facts != nullptr && facts->plain;
}

}  // namespace opbase
