#include "compat/tensor_desc.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "call.h"

using ascendcl::api_call;
using ascendcl::api_value;
using ascendcl::api_void;
using ascendcl::arg;
using ascendcl::Failure;
using ascendcl::out;
using ascendcl::require_not_null;

namespace ascendcl {
namespace {

std::vector<int64_t> copy_dims(int num_dims, const int64_t* dims) {
    if (num_dims < 0) {
        throw Failure{ACL_ERROR_INVALID_PARAM, fmt::format("numDims must be 0 or more: got {}", num_dims)};
    }
    if (num_dims == 0) return {};
    require_not_null("dims", dims);
    return {dims, dims + num_dims};
}

// The types and formats that torch-npu uses; the others appear as their number.
std::string name_of(aclDataType type) {
    switch (type) {
        case ACL_FLOAT:
            return "float32";
        case ACL_FLOAT16:
            return "float16";
        case ACL_BF16:
            return "bfloat16";
        case ACL_DOUBLE:
            return "float64";
        case ACL_BOOL:
            return "bool";
        case ACL_INT8:
            return "int8";
        case ACL_UINT8:
            return "uint8";
        case ACL_INT16:
            return "int16";
        case ACL_INT32:
            return "int32";
        case ACL_INT64:
            return "int64";
        case ACL_STRING:
            return "string";
        default:
            return fmt::format("aclDataType {}", static_cast<int>(type));
    }
}

std::string name_of(aclFormat format) {
    switch (format) {
        case ACL_FORMAT_ND:
            return "ND";
        case ACL_FORMAT_NCHW:
            return "NCHW";
        case ACL_FORMAT_NHWC:
            return "NHWC";
        case ACL_FORMAT_NCDHW:
            return "NCDHW";
        default:
            return fmt::format("aclFormat {}", static_cast<int>(format));
    }
}

}  // namespace

std::string describe(const aclTensorDesc* desc) {
    if (desc == nullptr) return "nullptr";
    std::string text = desc->name.empty() ? std::string() : desc->name + ": ";
    text += fmt::format("{}[{}] {}", name_of(desc->data_type), fmt::join(desc->dims, ","), name_of(desc->format));
    if (desc->storage_dims && *desc->storage_dims != desc->dims)
        text += fmt::format(" stored as [{}]", fmt::join(*desc->storage_dims, ","));
    if (desc->storage_format && *desc->storage_format != desc->format)
        text += fmt::format(" stored in {}", name_of(*desc->storage_format));
    if (desc->placement != ACL_MEMTYPE_DEVICE) text += " on the host";
    return text;
}

}  // namespace ascendcl

aclTensorDesc* aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t* dims, aclFormat format) {
    return api_value(
        "aclCreateTensorDesc", static_cast<aclTensorDesc*>(nullptr),
        [&] {
            return new aclTensorDesc{dataType, format, ascendcl::copy_dims(numDims, dims), {}, ACL_MEMTYPE_DEVICE,
                                     {},       {}};
        },
        arg("dataType", dataType), arg("numDims", numDims), arg("dims", dims), arg("format", format));
}

void aclDestroyTensorDesc(const aclTensorDesc* desc) {
    api_void(
        "aclDestroyTensorDesc", [&] { delete desc; }, arg("desc", desc));
}

aclError aclSetTensorFormat(aclTensorDesc* desc, aclFormat format) {
    return api_call(
        "aclSetTensorFormat",
        [&] {
            require_not_null("desc", desc);
            desc->storage_format = format;
        },
        arg("desc", desc), arg("format", format));
}

aclError aclSetTensorShape(aclTensorDesc* desc, int numDims, const int64_t* dims) {
    return api_call(
        "aclSetTensorShape",
        [&] {
            require_not_null("desc", desc);
            desc->storage_dims = ascendcl::copy_dims(numDims, dims);
        },
        arg("desc", desc), arg("numDims", numDims), arg("dims", dims));
}

aclError aclSetTensorPlaceMent(aclTensorDesc* desc, aclMemType memType) {
    return api_call(
        "aclSetTensorPlaceMent",
        [&] {
            require_not_null("desc", desc);
            if (memType < ACL_MEMTYPE_DEVICE || memType > ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT) {
                throw Failure{
                    ACL_ERROR_INVALID_PARAM,
                    fmt::format("memType must be 0 (device), 1 (host) or 2 (host, independent of compilation): got {}",
                                static_cast<int>(memType))};
            }
            desc->placement = memType;
        },
        arg("desc", desc), arg("memType", memType));
}

void aclSetTensorDescName(aclTensorDesc* desc, const char* name) {
    api_void(
        "aclSetTensorDescName",
        [&] {
            if (desc != nullptr) desc->name = name == nullptr ? "" : name;
        },
        arg("desc", desc), arg("name", name));
}

aclDataType aclGetTensorDescType(const aclTensorDesc* desc) {
    return desc ? desc->data_type : ACL_DT_UNDEFINED;
}

aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc) {
    return desc ? desc->format : ACL_FORMAT_UNDEFINED;
}

size_t aclGetTensorDescNumDims(const aclTensorDesc* desc) {
    return desc ? desc->dims.size() : 0;
}

aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* dimSize) {
    return api_call(
        "aclGetTensorDescDimV2",
        [&] {
            require_not_null("desc", desc);
            require_not_null("dimSize", dimSize);
            if (index >= desc->dims.size()) {
                throw Failure{ACL_ERROR_INVALID_PARAM,
                              fmt::format("index must be less than {}, the number of dimensions: got {}",
                                          desc->dims.size(), index)};
            }
            *dimSize = desc->dims[index];
        },
        arg("desc", desc), arg("index", index), out("dimSize", dimSize));
}
