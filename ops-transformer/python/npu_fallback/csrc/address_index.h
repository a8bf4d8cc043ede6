// Positions by address: a scan while there are few, as nearly always, and a hash table for optimizer steps over
// thousands.
#pragma once

#include <c10/util/SmallVector.h>
#include <c10/util/flat_hash_map.h>

namespace npu_fallback {

class AddressIndex {
  public:
    static constexpr size_t kNone = static_cast<size_t>(-1);

    /// The position at which the address was added first, or kNone.
    size_t find(const void* address) {
        if (addresses_.size() <= kScanned) {
            for (size_t i = 0; i < addresses_.size(); ++i) {
                if (addresses_[i] == address) return i;
            }
            return kNone;
        }
        // Caught up here and not when adding: many calls have no results to look for.
        for (; hashed_ < addresses_.size(); ++hashed_) table_.emplace(addresses_[hashed_], hashed_);
        auto found = table_.find(address);
        return found == table_.end() ? kNone : found->second;
    }

    /// Makes room for so many more.
    void reserve(size_t count) {
        addresses_.reserve(addresses_.size() + count);
        if (addresses_.size() + count > kScanned) table_.reserve(addresses_.size() + count);
    }

    /// Gives the address the next position, counted from 0.
    void add(const void* address) { addresses_.push_back(address); }

  private:
    static constexpr size_t kScanned = 16;
    c10::SmallVector<const void*, kScanned> addresses_;
    ska::flat_hash_map<const void*, size_t> table_;
    size_t hashed_ = 0;
};

}  // namespace npu_fallback
