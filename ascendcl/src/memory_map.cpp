#include "memory_map.h"

#include <iterator>
#include <mutex>
#include <shared_mutex>

namespace ascendcl {

void MemoryMap::add(const Block& block) {
    const std::lock_guard guard(mutex_);
    blocks_.emplace(block.begin, block);
    live_bytes_ += block.size;
}

std::optional<Block> MemoryMap::find_locked(const void* pointer) const {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    const auto after = blocks_.upper_bound(address);
    if (after == blocks_.begin()) return std::nullopt;
    const Block& block = std::prev(after)->second;
    if (address >= block.end()) return std::nullopt;
    return block;
}

std::optional<Block> MemoryMap::find(const void* pointer) {
    const std::shared_lock guard(mutex_);
    return find_locked(pointer);
}

MemoryMap::Pair MemoryMap::find_both(const void* first, const void* second) {
    const std::shared_lock guard(mutex_);
    return {find_locked(first), find_locked(second)};
}

std::optional<Block> MemoryMap::take(const void* pointer, BlockKind kind) {
    const std::lock_guard guard(mutex_);
    const auto found = blocks_.find(reinterpret_cast<uintptr_t>(pointer));
    if (found == blocks_.end() || found->second.kind != kind) return std::nullopt;
    const Block block = found->second;
    blocks_.erase(found);
    live_bytes_ -= block.size;
    return block;
}

std::size_t MemoryMap::live_bytes() {
    const std::shared_lock guard(mutex_);
    return live_bytes_;
}

}  // namespace ascendcl
