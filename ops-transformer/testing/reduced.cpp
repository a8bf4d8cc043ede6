#include "testing/reduced.h"

#include <cstdlib>
#include <string_view>

namespace flash_attention::testing {

bool reduced_tests() {
#ifdef FUSION_REDUCED_TESTS
    return true;
#else
    const char* text = std::getenv("FUSION_REDUCED_TESTS");
    return text != nullptr && std::string_view(text) == "1";
#endif
}

}  // namespace flash_attention::testing
