#include "backward_stand_in.h"

#include "entry_points.h"
#include "testing/backward_judge.h"

namespace flash_attention::testing {
namespace {

// A tensor that belongs to the call has to be passed, any other not.
bool arguments_are_there(PreparedBackward& p) {
    const ScoreArguments a = p.arguments();
    const Case& c = p.call().description;
    const aclTensor* const always[] = {a.query, a.key, a.value, a.max, a.sum, a.out, a.dy, a.dq, a.dk, a.dv};
    bool there = true;
    for (const aclTensor* tensor : always) there &= tensor != nullptr;
    auto belongs = [&](const aclTensor* tensor, bool wanted) { there &= (tensor != nullptr) == wanted; };
    belongs(a.query_rope, c.rope > 0);
    belongs(a.key_rope, c.rope > 0);
    belongs(a.dq_rope, c.rope > 0);
    belongs(a.dk_rope, c.rope > 0);
    belongs(a.real_shift, c.biased());
    belongs(a.dpse, c.dpse != Dpse::kNone);
    belongs(a.sink, c.sink != Sink::kNone);
    belongs(a.dsink, c.sink != Sink::kNone);
    belongs(a.atten_mask, c.masked());
    belongs(a.drop_mask, c.has(kDrop));
    return there;
}

}  // namespace

BackwardOperator stand_in(const Damage& damage) {
    BackwardOperator made;
    made.phase_one = [](PreparedBackward& p) -> aclnnStatus {
        return why_illegal(p.call().description).empty() && arguments_are_there(p) ? 0 : 161002;
    };
    made.allocates = true;
    made.phase_two = [damage](PreparedBackward& p) -> aclnnStatus {
        reference::ScoreGradArguments arguments = p.call().arguments;
        if (damage.arguments) damage.arguments(arguments);
        reference::ScoreGradResult r = reference::score_grad(arguments);
        if (damage.results) damage.results(r);
        const Case& c = p.call().description;
        for (const Argument gradient : kGradientArguments) {
            if (gradient == kDpse && c.dpse != Dpse::kWanted) continue;
            p.memory().write(gradient, gradient_type(c, gradient), gradient_of(r, gradient).values);
        }
        if (damage.memory) damage.memory(p.memory());
        return 0;
    };
    return made;
}

}  // namespace flash_attention::testing
