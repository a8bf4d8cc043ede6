// Shorter tests where time is dear: under sanitizers and emulated processors, which cost a factor of ten and more, and
// where kernels are tested that are not the machine's best. Sequences are shorter and fewer random cases are drawn;
// every kind of case stays.
#pragma once

namespace flash_attention::testing {

// In sanitized builds, and everywhere with FUSION_REDUCED_TESTS=1 in the environment.
bool reduced_tests();

template <class T>
T reduced(T usual, T smaller) {
    return reduced_tests() ? smaller : usual;
}

}  // namespace flash_attention::testing
