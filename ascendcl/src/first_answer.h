// Answers that are looked for once a process.
#pragma once

#include <atomic>

namespace ascendcl {

// What is kept, or what find() says when nothing is (`none`), which is then kept. Without a lock and without the guard
// of a local static: a thread may be forked away in the middle of its first call, and the child would wait for it for
// ever. Two threads may both look; the first answer stays. Let `kept` be constinit, so that it needs no guard either.
template <class T, class Find>
T first_answer(std::atomic<T>& kept, T none, Find find) {
    T answer = kept.load(std::memory_order_acquire);
    if (answer != none) return answer;
    const T found = find();
    return kept.compare_exchange_strong(answer, found, std::memory_order_acq_rel) ? found : answer;
}

}  // namespace ascendcl
