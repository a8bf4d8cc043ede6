// The line that torch-npu appends to its error messages. formatErrorCode, which makes it there, is not exported.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include "torch_npu/csrc/core/npu/NPUException.h"
#include "torch_npu/csrc/core/npu/NPUFunctions.h"

namespace op_plugin {

inline const char* error_text(ErrCode code) {
    switch (code) {
        case ErrCode::PARAM:
            return "invalid parameter";
        case ErrCode::TYPE:
            return "invalid type";
        case ErrCode::VALUE:
            return "invalid value";
        case ErrCode::PTR:
            return "invalid pointer";
        case ErrCode::INTERNAL:
            return "internal error";
        case ErrCode::MEMORY:
            return "memory error";
        case ErrCode::NOT_SUPPORT:
            return "feature not supported";
        case ErrCode::NOT_FOUND:
            return "resource not found";
        case ErrCode::ACL:
            return "call acl api failed";
        default:
            return "error";
    }
}

inline std::string error_suffix(ErrCode code) {
    int32_t device = -1;
    if (c10_npu::GetDevice(&device) != ACL_ERROR_NONE) device = -1;
    const char* rank = std::getenv("RANK");

    const std::time_t now = std::time(nullptr);
    std::tm local{};
    localtime_r(&now, &local);
    char time[32];
    std::strftime(time, sizeof time, "%Y-%m-%d-%H:%M:%S", &local);

    char line[256];
    std::snprintf(line, sizeof line, "\n[ERROR] %s (PID:%d, Device:%d, RankID:%s) ERR01%03d OPS %s", time, getpid(),
                  device, rank == nullptr ? "-1" : rank, static_cast<int>(code), error_text(code));
    return line;
}

}  // namespace op_plugin

#undef OPS_ERROR
#define OPS_ERROR(code) op_plugin::error_suffix(code)
