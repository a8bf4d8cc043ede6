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
    size_t find(const void* address) const {
        if (addresses_.size() <= kScanned) {
            for (size_t i = 0; i < addresses_.size(); ++i) {
                if (addresses_[i] == address) return i;
            }
            return kNone;
        }
        auto found = table_.find(address);
        return found == table_.end() ? kNone : found->second;
    }

    /// Gives the address the next position, counted from 0.
    void add(const void* address) {
        addresses_.push_back(address);
        if (addresses_.size() == kScanned + 1) {
            for (size_t i = 0; i < addresses_.size(); ++i) table_.emplace(addresses_[i], i);
        } else if (addresses_.size() > kScanned) {
            table_.emplace(address, addresses_.size() - 1);
        }
    }

  private:
    static constexpr size_t kScanned = 16;
    c10::SmallVector<const void*, kScanned> addresses_;
    ska::flat_hash_map<const void*, size_t> table_;
};

}  // namespace npu_fallback
