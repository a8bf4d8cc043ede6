// Which addresses belong to which block of the runtime's allocators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "state_mutex.h"

namespace ascendcl {

enum class BlockKind { kDevice, kHost };

struct Block {
    uintptr_t begin = 0;
    std::size_t size = 0;  // as handed out: the request with its rounding
    BlockKind kind = BlockKind::kDevice;
    int32_t device = 0;

    uintptr_t end() const { return begin + size; }
};

// Ordered by address, since frameworks carve their tensors out of large blocks and pass interior pointers.
class MemoryMap {
  public:
    void add(const Block& block);

    // The block that contains `pointer`, if any.
    std::optional<Block> find(const void* pointer);

    // The two of a copy under one lock.
    struct Pair {
        std::optional<Block> first, second;
    };
    Pair find_both(const void* first, const void* second);

    // Removes and returns the block of `kind` that starts at `pointer`; nothing happens when there is none.
    std::optional<Block> take(const void* pointer, BlockKind kind);

    // Bytes of all live blocks.
    std::size_t live_bytes();

  private:
    std::optional<Block> find_locked(const void* pointer) const;

    StateMutex mutex_;
    std::map<uintptr_t, Block> blocks_;
    std::size_t live_bytes_ = 0;
};

}  // namespace ascendcl
