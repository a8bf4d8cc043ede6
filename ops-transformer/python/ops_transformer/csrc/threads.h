// The threads of operators: those that PyTorch uses for its own.
#pragma once

namespace ops_transformer {

// Whether the libraries in this process are this project's. Only they work on host memory, and lend their threads out.
bool libraries_are_ours();

// Lets the libraries run their loops with at::parallel_for, in the number of threads that torch.set_num_threads set, or
// fewer if ASCEND_CPU_THREADS says so. To be called before each phase one: the number may have changed.
void use_torch_threads();

}  // namespace ops_transformer
