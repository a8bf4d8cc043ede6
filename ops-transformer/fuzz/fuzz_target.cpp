// libFuzzer's entry point. With ASCEND_CPU_LOG=debug a single input prints its call.
#include <cstdlib>

#include "run_call.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

// Warnings about odd calls are part of the work, writing them is not. Two threads, so that work is split.
int LLVMFuzzerInitialize(int*, char***) {
    setenv("ASCEND_CPU_LOG", "off", 0);
    setenv("ASCEND_CPU_THREADS", "2", 0);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    flash_attention::fuzzing::FuzzCall call;
    flash_attention::fuzzing::read_call(data, size, call);
    flash_attention::fuzzing::run_call(call);
    return 0;
}
