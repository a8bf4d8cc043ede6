// The whole extension in one translation unit: most of the time goes into torch's headers, which all of it shares.
#include "op_plugin/ops/SlideWindowsAttentionAutograd.cpp"
#include "op_plugin/ops/opapi/SlideWindowsAttentionKernelNpuOpApi.cpp"

// Made by codegen/generate.py.
#include "op_plugin/OpInterfaceEverything.cpp"
#include "torch_npu/csrc/aten/CustomRegisterSchema.cpp"
