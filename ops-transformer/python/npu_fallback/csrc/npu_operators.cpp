#include "npu_operators.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>

#include <numeric>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace npu_fallback {
namespace {

using at::Tensor;

// 16-bit operands are computed in float and rounded once, at the end.
Tensor wide(const Tensor& tensor) {
    return tensor.scalar_type() == at::kDouble ? tensor : tensor.to(at::kFloat);
}

// ---- Normalisation ------------------------------------------------------------------------------

// Of a tensor that is normalised over the last `count` dimensions: those, or the ones before them.
std::vector<int64_t> last_dims(const Tensor& tensor, int64_t count) {
    std::vector<int64_t> dims(count);
    std::iota(dims.begin(), dims.end(), tensor.dim() - count);
    return dims;
}
std::vector<int64_t> first_dims(const Tensor& tensor, int64_t count) {
    std::vector<int64_t> dims(tensor.dim() - count);
    std::iota(dims.begin(), dims.end(), 0);
    return dims;
}

std::tuple<Tensor, Tensor> normalize(const Tensor& input, const Tensor& weight, double epsilon) {
    const int64_t count = weight.dim();
    TORCH_CHECK(count > 0 && count <= input.dim() && input.sizes().slice(input.dim() - count) == weight.sizes(),
                "gamma of shape ", weight.sizes(), " does not fit the last dimensions of an input of shape ",
                input.sizes());
    const Tensor x = wide(input);
    const Tensor rstd = (x.square().mean(last_dims(x, count), /*keepdim=*/true) + epsilon).rsqrt();
    return {(x * rstd * weight).to(input.scalar_type()), rstd};
}

std::tuple<Tensor, Tensor> rms_norm(const Tensor& input, const Tensor& gamma, double epsilon) {
    return normalize(input, wide(gamma), epsilon);
}

std::tuple<Tensor, Tensor> gemma_rms_norm(const Tensor& input, const Tensor& gamma, double epsilon) {
    return normalize(input, wide(gamma) + 1, epsilon);
}

std::tuple<Tensor, Tensor, Tensor> add_rms_norm(const Tensor& x1, const Tensor& x2, const Tensor& gamma,
                                                double epsilon) {
    const Tensor sum = x1 + x2;
    auto [result, rstd] = rms_norm(sum, gamma, epsilon);
    return {result, rstd, sum};
}

// The statistic as a function of the input, which it is: as it is given it would be a constant to second derivatives.
// Epsilon, which is not given, is what the square of the statistic has beside the mean.
Tensor rstd_of(const Tensor& x, const Tensor& rstd, const std::vector<int64_t>& dims) {
    if (!at::GradMode::is_enabled() || !x.requires_grad()) return rstd;
    const Tensor mean = x.square().mean(dims, /*keepdim=*/true);
    return (mean + (rstd.pow(-2) - mean).detach()).rsqrt();
}

std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& grad, const Tensor& input, const Tensor& gamma,
                                             const Tensor& given_rstd) {
    const Tensor x = wide(input);
    const Tensor rstd = rstd_of(x, given_rstd, last_dims(input, gamma.dim()));
    const Tensor normalized = x * rstd;
    const Tensor upstream = wide(grad) * wide(gamma);
    const Tensor mean = (upstream * normalized).mean(last_dims(input, gamma.dim()), /*keepdim=*/true);
    const Tensor grad_input = (upstream - normalized * mean) * rstd;
    const Tensor products = wide(grad) * normalized;
    const auto rows = first_dims(input, gamma.dim());
    return {grad_input.to(input.scalar_type()), rows.empty() ? products : products.sum(rows)};
}

// ---- Activations --------------------------------------------------------------------------------

std::tuple<Tensor, Tensor> halves(const Tensor& tensor, int64_t dim) {
    TORCH_CHECK(tensor.size(dim) % 2 == 0, "npu_swiglu: dimension ", dim, " has the odd size ", tensor.size(dim));
    const auto parts = wide(tensor).chunk(2, dim);
    return {parts[0], parts[1]};
}

Tensor swiglu(const Tensor& input, int64_t dim) {
    const auto [gate, value] = halves(input, dim);
    return (at::silu(gate) * value).to(input.scalar_type());
}

// The CPU's kernel has no derivative; where one may be wanted the formula is written out.
Tensor silu_derivative(const Tensor& grad, const Tensor& x) {
    if (!at::GradMode::is_enabled() || !(grad.requires_grad() || x.requires_grad())) return at::silu_backward(grad, x);
    const Tensor share = x.sigmoid();
    return grad * share * (1 + x * (1 - share));
}

Tensor swiglu_backward(const Tensor& grad, const Tensor& input, int64_t dim) {
    const auto [gate, value] = halves(input, dim);
    const Tensor wide_grad = wide(grad);
    return at::cat({silu_derivative(wide_grad * value, gate), wide_grad * at::silu(gate)}, dim).to(input.scalar_type());
}

// The sigmoid approximation of the gaussian error unit.
constexpr double kFastGelu = 1.702;

Tensor fast_gelu(const Tensor& input) {
    const Tensor x = wide(input);
    return (x * (kFastGelu * x).sigmoid()).to(input.scalar_type());
}

Tensor fast_gelu_backward(const Tensor& grad, const Tensor& input) {
    const Tensor x = wide(input);
    const Tensor share = (kFastGelu * x).sigmoid();
    return (wide(grad) * (share + kFastGelu * x * share * (1 - share))).to(input.scalar_type());
}

// The names that the schema uses for the two formulas include PyTorch's own.
std::string_view gelu_formula(std::string_view approximate) {
    return approximate == "gelu_tanh" ? "tanh" : approximate == "gelu_erf" ? "none" : approximate;
}

Tensor gelu(const Tensor& input, std::string_view approximate) {
    return at::gelu(input, gelu_formula(approximate));
}

Tensor gelu_backward(const Tensor& grad, const Tensor& input, std::string_view approximate) {
    return at::gelu_backward(grad, input, gelu_formula(approximate));
}

Tensor silu(const Tensor& input) {
    return at::silu(input);
}
Tensor& silu_(Tensor& input) {
    return at::silu_(input);
}
Tensor silu_backward(const Tensor& grad, const Tensor& input, const Tensor& /*result*/) {
    return silu_derivative(wide(grad), wide(input)).to(input.scalar_type());
}

// ---- Rotary embedding ---------------------------------------------------------------------------

void check_mode(std::string_view mode) {
    TORCH_CHECK(mode == "half" || mode == "interleave", "rotary_mode should be half or interleave, but got ", mode);
}

void check_rotation(const Tensor& tensor, std::string_view mode) {
    check_mode(mode);
    TORCH_CHECK(tensor.size(-1) % 2 == 0, "rotary embedding of the odd head dimension ", tensor.size(-1));
}

// (x1, x2) -> (-x2, x1) with the halves of the last dimension, or its neighbours, as x1 and x2.
Tensor quarter_turn(const Tensor& tensor, std::string_view mode) {
    check_rotation(tensor, mode);
    if (mode == "half") {
        const auto parts = tensor.chunk(2, -1);
        return at::cat({-parts[1], parts[0]}, -1);
    }
    const Tensor pairs = tensor.unflatten(-1, {-1, 2});
    return at::stack({-pairs.select(-1, 1), pairs.select(-1, 0)}, -1).flatten(-2);
}

// A matrix takes the place of the quarter turn; then the mode, which has to be one of the two still, says nothing.
Tensor rotary_mul(const Tensor& input, const Tensor& r1, const Tensor& r2, std::string_view mode,
                  const std::optional<Tensor>& rotate) {
    check_mode(mode);
    for (const Tensor& factor : {r1, r2}) {
        TORCH_CHECK(at::is_expandable_to(factor.sizes(), input.sizes()), "npu_rotary_mul: r1 and r2 of shapes ",
                    r1.sizes(), " and ", r2.sizes(), " do not both fit an input of shape ", input.sizes());
    }
    const Tensor x = wide(input);
    Tensor turned;
    if (rotate && rotate->defined()) {
        const int64_t size = input.size(-1);
        TORCH_CHECK(rotate->sizes() == at::IntArrayRef({size, size}), "npu_rotary_mul: rotate of shape ",
                    rotate->sizes(), " should be a matrix [", size, ", ", size,
                    "], as the last dimension of the input");
        turned = at::matmul(x, wide(*rotate));
    } else {
        turned = quarter_turn(x, mode);
    }
    return (x * wide(r1) + turned * wide(r2)).to(input.scalar_type());
}

std::tuple<Tensor, Tensor, Tensor> rotary_mul_backward(const Tensor& grad, const Tensor& input, const Tensor& r1,
                                                       const Tensor& r2, std::string_view mode) {
    const Tensor g = wide(grad), x = wide(input);
    // A quarter turn back is the turn with the other sign.
    const Tensor grad_input = g * wide(r1) - quarter_turn(g * wide(r2), mode);
    const Tensor grad_r1 = at::sum_to(g * x, r1.sizes());
    const Tensor grad_r2 = at::sum_to(g * quarter_turn(x, mode), r2.sizes());
    return {grad_input.to(input.scalar_type()), grad_r1.to(r1.scalar_type()), grad_r2.to(r2.scalar_type())};
}

// The derivative that torch_npu registered is that of the mode, whatever matrix there was.
class RotaryMul : public torch::autograd::Function<RotaryMul> {
  public:
    static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& input, const Tensor& r1,
                          const Tensor& r2, const std::string& mode, const std::optional<Tensor>& rotate) {
        context->save_for_backward({input, r1, r2});
        context->saved_data["mode"] = mode;
        context->saved_data["has_matrix"] = rotate && rotate->defined();
        return rotary_mul(input, r1, r2, mode, rotate);
    }

    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                   const torch::autograd::variable_list& grads) {
        TORCH_CHECK_NOT_IMPLEMENTED(!context->saved_data["has_matrix"].toBool(),
                                    "npu_rotary_mul: there is no backward with a rotate matrix");
        const auto saved = context->get_saved_variables();
        const auto [grad_input, grad_r1, grad_r2] =
            rotary_mul_backward(grads[0], saved[0], saved[1], saved[2], context->saved_data["mode"].toStringRef());
        return {grad_input, grad_r1, grad_r2, Tensor(), Tensor()};
    }
};

Tensor differentiable_rotary_mul(const Tensor& input, const Tensor& r1, const Tensor& r2, std::string_view mode,
                                 const std::optional<Tensor>& rotate) {
    return RotaryMul::apply(input, r1, r2, std::string(mode), rotate);
}

// The axis of the heads, along which cos and sin have size 1.
int64_t head_axis(std::string_view layout) {
    TORCH_CHECK(layout == "BSND" || layout == "SBND" || layout == "BNSD" || layout == "TND",
                "layout should be BSND, SBND, BNSD or TND, but got ", layout);
    return static_cast<int64_t>(layout.find('N'));
}

// Changes query and key in place, as documented, and returns them; so everything is checked before.
std::tuple<Tensor, Tensor> apply_rotary_pos_emb(const Tensor& query, const Tensor& key, const Tensor& cos,
                                                const Tensor& sin, std::string_view layout, std::string_view mode) {
    const int64_t axis = head_axis(layout);
    check_rotation(query, mode);
    TORCH_CHECK(query.dim() == static_cast<int64_t>(layout.size()), "query of shape ", query.sizes(),
                " does not have layout ", layout);
    // Sizes are those of query, but for the number of heads.
    const auto check_sizes = [&](const Tensor& tensor, const char* name, std::optional<int64_t> heads) {
        auto sizes = query.sizes().vec();
        if (tensor.dim() == query.dim()) sizes[axis] = heads.value_or(tensor.size(axis));
        TORCH_CHECK(tensor.sizes() == sizes, name, " of shape ", tensor.sizes(), " does not fit query of shape ",
                    query.sizes(), " in layout ", layout);
    };
    check_sizes(key, "key", std::nullopt);
    check_sizes(cos, "cos", 1);
    check_sizes(sin, "sin", 1);
    for (const Tensor& tensor : {query, key}) tensor.copy_(rotary_mul(tensor, cos, sin, mode, std::nullopt));
    return {query, key};
}

// ---- Casts --------------------------------------------------------------------------------------

Tensor cast_to_type(const Tensor& input, at::ScalarType type) {
    return input.to(type);
}

Tensor cast_to_code(const Tensor& input, int64_t code, std::optional<int64_t> input_dtype) {
    const auto type = static_cast<int64_t>(input.scalar_type());
    TORCH_CHECK_NOT_IMPLEMENTED(input_dtype.value_or(type) == type, "npu_dtype_cast: input_dtype ", *input_dtype,
                                " is not the type of the input, ", type);
    TORCH_CHECK_NOT_IMPLEMENTED(code >= 0 && code < static_cast<int64_t>(at::ScalarType::Undefined),
                                "npu_dtype_cast: type ", code, " is not a type of PyTorch");
    return input.to(static_cast<at::ScalarType>(code));
}

// There is one memory format on a CPU, so a cast of formats gives its first argument.
void return_first(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    torch::jit::drop(*stack, op.schema().arguments().size() - 1);
}

constexpr const char* kFormatCasts[] = {"npu_format_cast",
                                        "npu_format_cast.Tensor",
                                        "npu_format_cast_",
                                        "npu_format_cast_.acl_format",
                                        "_npu_format_cast",
                                        "_npu_format_cast.aclnn",
                                        "_npu_format_cast.input_dtype"};

// Of these there is no derivative, on a device either. By default PyTorch would warn and go on without one.
constexpr const char* kNotDifferentiable[] = {"npu_fusion_attention_grad", "npu_fusion_attention_grad_v2",
                                              "npu_fusion_attention_grad_v3", "npu_ring_attention_update",
                                              "npu_gemma_rms_norm"};

}  // namespace

void register_npu_operators(torch::Library& kernels, torch::Library& autograd) {
    kernels.impl("npu_rms_norm", &rms_norm);
    kernels.impl("npu_gemma_rms_norm", &gemma_rms_norm);
    kernels.impl("npu_add_rms_norm", &add_rms_norm);
    kernels.impl("npu_swiglu", &swiglu);
    kernels.impl("fast_gelu", &fast_gelu);
    kernels.impl("npu_fast_gelu", &fast_gelu);
    kernels.impl("npu_rotary_mul", &rotary_mul);
    autograd.impl("npu_rotary_mul", &differentiable_rotary_mul);
    kernels.impl("npu_apply_rotary_pos_emb", &apply_rotary_pos_emb);
    // These are differentiated as the operators that they consist of: casts, what PyTorch has itself, and the first
    // derivatives of the others, which makes those differentiable twice.
    for (torch::Library* library : {&kernels, &autograd}) {
        library->impl("npu_rms_norm_backward", &rms_norm_backward);
        library->impl("npu_swiglu_backward", &swiglu_backward);
        library->impl("npu_fast_gelu_backward", &fast_gelu_backward);
        library->impl("npu_gelu", &gelu);
        library->impl("npu_gelu_backward", &gelu_backward);
        library->impl("npu_silu", &silu);
        library->impl("npu_silu_", &silu_);
        library->impl("npu_silu_backward", &silu_backward);
        library->impl("npu_rotary_mul_backward", &rotary_mul_backward);
        library->impl("npu_dtype_cast", &cast_to_code);
        library->impl("_npu_dtype_cast", &cast_to_type);
        for (const char* name : kFormatCasts)
            library->impl(name, torch::CppFunction::makeFromBoxedFunction<&return_first>());
    }
    for (const char* name : kNotDifferentiable) autograd.impl(name, torch::autograd::autogradNotImplementedFallback());
}

}  // namespace npu_fallback
