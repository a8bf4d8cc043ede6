// From tensor arguments to the base addresses that the engine gets. Views whose last axis is contiguous are used where
// they lie; others are packed into workspace before the run (inputs) or unpacked from it after the run (outputs).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/problem.h"
#include "op_api/score_request.h"
#include "opbase/executor.h"
#include "opbase/tensor.h"

namespace flash_attention {

class Operands {
  public:
    // Adds a non-empty argument that the run reads or writes, after checking that its view lies inside its storage and
    // has a data address. Returns the view as the engine sees it: the argument itself, or its packed copy. The
    // reference lives until the next argument is added.
    const opbase::Tensor& add_input(const ScoreRequest& request, Operand operand, const char* name,
                                    ScoreRequest::TensorField field);
    // An input whose elements the engine reads one after another, in row-major order of its shape: any view with gaps
    // or repetitions is packed.
    void add_flat_input(const ScoreRequest& request, Operand operand, const char* name,
                        ScoreRequest::TensorField field);
    const opbase::Tensor& add_output(const ScoreRequest& request, Operand operand, const char* name,
                                     ScoreRequest::TensorField field);
    // An output that the engine writes one element after another; any other view gets it from workspace.
    void add_flat_output(const ScoreRequest& request, Operand operand, const char* name,
                         ScoreRequest::TensorField field);
    // Elements of a flat output that the engine does not write.
    void zero_elements(Operand operand, int64_t first, int64_t count, int64_t element_size);
    // An output that the engine does not know: it gets zeros.
    void add_zeros(const ScoreRequest& request, const char* name, ScoreRequest::TensorField field);

    // Workspace for the packed copies; the caller puts it at a 64-byte boundary.
    int64_t workspace_bytes() const { return workspace_bytes_; }

    // Phase two. `area` holds workspace_bytes().
    Addresses addresses(const opbase::Launch& launch, std::byte* area) const;
    void before_run(const opbase::Launch& launch, std::byte* area) const;  // packs inputs, writes zeros
    void after_run(const opbase::Launch& launch, std::byte* area) const;   // unpacks outputs

  private:
    struct Place {
        int slot = -1;  // index in Launch::inputs or outputs; -1: the run does not use the operand
        bool output = false;
        int64_t byte_offset = 0;    // from the storage address to the first element
        int64_t workspace_at = -1;  // of the packed copy in the area; -1: none
    };
    struct Copy {
        Operand operand;
        opbase::Tensor packed;  // shape and strides in workspace
        opbase::Shape copied;   // shape of the copy: 1 on axes that repeat and are kept once
        opbase::Shape strides;  // of the argument
        int64_t element_size;
    };

    // A part of a flat output.
    struct ZeroBytes {
        Operand operand;
        int64_t byte_offset, bytes;
    };
    struct Zeros {
        Place place;
        opbase::Shape shape, strides, source_strides;
        int64_t element_size;
    };

    static Place place_of(const ScoreRequest& request, const char* name, ScoreRequest::TensorField field, bool output);
    enum class Repetition { kKeepOnce, kUnfold };  // of axes with stride 0, in a packed copy
    const opbase::Tensor& add_copy(Operand operand, const char* name, const aclTensor& tensor, Repetition repetition);
    static std::byte* storage(const Place& place, const opbase::Launch& launch);
    std::byte* address(Operand operand, const opbase::Launch& launch, std::byte* area) const;

    std::array<Place, kOperandCount> places_;
    std::vector<Copy> copies_;  // rarely any, like the next two
    std::vector<ZeroBytes> zero_bytes_;
    std::vector<Zeros> zeros_;
    int64_t workspace_bytes_ = 0;
};

}  // namespace flash_attention
