// Writes the seeds of the fuzzer: make_flash_attention_corpus <folder>. One file for each entry point, layout, mode
// and modifier, and for each kind of change, named after what it is; the endings go with the entry points. The fuzzer
// combines them.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "recipe.h"

namespace {

using flash_attention::fuzzing::Change;
using flash_attention::fuzzing::ChangeKind;
using flash_attention::fuzzing::Recipe;
using flash_attention::fuzzing::to_bytes;
using flash_attention::testing::Version;

class Corpus {
  public:
    explicit Corpus(std::filesystem::path folder) : folder_(std::move(folder)) {}

    void add(const std::string& name, const Recipe& recipe, const std::vector<Change>& changes = {}) {
        const std::vector<uint8_t> bytes = to_bytes(recipe, changes);
        std::ofstream file(folder_ / name, std::ios::binary);
        file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
        ok_ = ok_ && file.good();
    }
    bool ok() const { return ok_; }

  private:
    std::filesystem::path folder_;
    bool ok_ = true;
};

constexpr uint8_t code(Version version) {
    return static_cast<uint8_t>(version);
}

// Choices of Recipe fields.
constexpr uint8_t kFullMask = 1, kMaskForEachBatchEntry = 3, kOwnMaskForEachHead = 4, kMasksSomeBytes = 64;
constexpr uint8_t kNextZero = 1, kLongWithCompressedBias = 255, kSlopes = 2, kRootSlopes = 3, kBiasAsSummand = 1;

// Every entry point with another ending.
void add_entry_points(Corpus& corpus) {
    constexpr const char* kNames[] = {"score",
                                      "score_v2",
                                      "score_v3",
                                      "score_v4",
                                      "varlen",
                                      "varlen_v2",
                                      "varlen_v3",
                                      "varlen_v4",
                                      "varlen_v5",
                                      "varlen_v5_max",
                                      "grad",
                                      "grad_v2",
                                      "grad_v3",
                                      "grad_v4",
                                      "unpadding_grad",
                                      "unpadding_grad_v2",
                                      "unpadding_grad_v3",
                                      "unpadding_grad_v4",
                                      "unpadding_grad_v5",
                                      "unpadding_grad_v5_max"};
    for (uint8_t version = 0; version < std::size(kNames); version++) {
        corpus.add(kNames[version],
                   {.version = version, .mask = kFullMask, .hidden = kMasksSomeBytes, .ending = version});
    }
    constexpr const char* kLayouts[] = {"bnsd", "bsnd", "bsh", "sbh", "tnd"};
    for (uint8_t layout = 1; layout < std::size(kLayouts); layout++) {
        corpus.add(std::string("score_v4_") + kLayouts[layout],
                   {.version = code(Version::kScoreV4), .layout = layout, .dtype = static_cast<uint8_t>(layout % 3)});
    }
}

void add_modes(Corpus& corpus) {
    for (uint8_t mode = 0; mode <= 8; mode++) {
        Recipe recipe{.mode = mode, .mask = kFullMask, .hidden = kMasksSomeBytes, .prefix = 2};
        if (mode >= 7) recipe.next = kNextZero;
        if (mode == 5) recipe.mask = kMaskForEachBatchEntry;
        if (mode <= 6) corpus.add("dense_mode_" + std::to_string(mode), recipe);
        recipe.version = code(Version::kVarLen);
        recipe.kv_length = 6;  // at least as long as the rows
        if (mode >= 3 && mode != 5) corpus.add("tnd_mode_" + std::to_string(mode), recipe);
    }
    corpus.add("dense_mask_of_each_head", {.mask = kOwnMaskForEachHead, .hidden = kMasksSomeBytes});
    corpus.add("tnd_block_diagonal_mask",
               {.version = code(Version::kVarLen), .mask = 5, .hidden = kMasksSomeBytes, .slack = 6});
}

void add_modifiers(Corpus& corpus) {
    const uint8_t dense = code(Version::kScoreV3), tnd = code(Version::kVarLenV5);
    for (const uint8_t version : {dense, tnd}) {
        const std::string prefix = version == dense ? "dense_" : "tnd_";
        corpus.add(prefix + "bias", {.version = version, .pse_type = kBiasAsSummand, .bias = 4});
        corpus.add(prefix + "bias_of_one_row", {.version = version, .bias = 1});
        corpus.add(prefix + "slopes",
                   {.version = version, .kv_length = 0, .pse_type = kSlopes, .bias = 1, .starts = 3});
        corpus.add(prefix + "root_slopes", {.version = version, .kv_length = 0, .pse_type = kRootSlopes});
        corpus.add(prefix + "dropout", {.version = version, .hidden = 200, .drop_mask = 1, .keep_prob = 1});
        corpus.add(prefix + "sink", {.version = version, .mode = 2, .mask = kFullMask, .sink = 1});
    }
    corpus.add("dense_compressed_bias", {.q_length = kLongWithCompressedBias, .mode = 2, .mask = kFullMask, .bias = 2});
    corpus.add(
        "tnd_compressed_bias",
        {.version = code(Version::kVarLen), .batch = 1, .kv_length = 0, .mode = 3, .mask = kFullMask, .bias = 2});
    corpus.add("tnd_rope", {.version = tnd, .dtype = 2, .kv_length = 6, .mode = 3, .mask = kFullMask, .rope = 4});
    corpus.add("tnd_same_as_input", {.version = tnd, .stats_layout = 1, .stats_shape = 4, .slack = 9, .tail = 2});
    corpus.add("numbers_out_of_range", {.dtype = 1, .scale = 5, .content = 3});
    corpus.add("nan_and_infinity", {.version = dense, .dtype = 2, .bias = 4, .sink = 1, .content = 2});
    corpus.add("views", {.version = dense, .dtype = 1, .bias = 4, .view = 13, .other_view = 16});
}

// What backward has of its own, and dropout from seed and offset.
void add_backward(Corpus& corpus) {
    const uint8_t dense = code(Version::kGradV4), tnd = code(Version::kUnpaddingGradV5);
    corpus.add("score_v4_dropout_from_seed", {.version = code(Version::kScoreV4), .hidden = 7, .keep_prob = 1});
    corpus.add("grad_v4_dropout_from_seed", {.version = dense, .hidden = 7, .keep_prob = 1});
    corpus.add("grad_v4_tnd", {.version = dense, .layout = 4, .slack = 5, .tail = 1});
    for (const uint8_t bias : {129, 132}) {  // one row, and a whole matrix
        corpus.add("dense_bias_gradient_" + std::to_string(bias), {.version = dense, .bias = bias, .sink = 1});
        corpus.add("tnd_bias_gradient_" + std::to_string(bias), {.version = tnd, .bias = bias, .sink = 1});
    }
    corpus.add("slopes_gradient", {.version = dense, .kv_length = 0, .pse_type = kSlopes, .bias = 129});
    corpus.add("tnd_rope_gradient",
               {.version = tnd, .dtype = 2, .kv_length = 6, .mode = 3, .mask = kFullMask, .rope = 4});
    corpus.add("gradient_views", {.version = dense, .dtype = 1, .view = 13, .other_view = 35});
    corpus.add("gradient_of_other_size", {.version = dense},
               {{.kind = static_cast<uint8_t>(ChangeKind::kDimension), .argument = 133, .index = 2, .value = 7}});
}

void add_changes(Corpus& corpus) {
    constexpr const char* kNames[] = {"dimension", "stride",  "rank",      "offset",     "dtype", "format",
                                      "storage",   "no_data", "no_tensor", "new_tensor", "entry", "list_length",
                                      "integer",   "real",    "text",      "null_result"};
    static_assert(std::size(kNames) == flash_attention::fuzzing::kChangeKindCount);
    for (uint8_t kind = 0; kind < std::size(kNames); kind++) {
        corpus.add(std::string("change_") + kNames[kind], {.version = static_cast<uint8_t>(kind % 10)},
                   {{.kind = kind, .argument = 1, .index = 3, .value = 7}});
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fputs("usage: make_flash_attention_corpus <folder>\n", stderr);
        return 2;
    }
    std::filesystem::create_directories(argv[1]);
    Corpus corpus(argv[1]);
    add_entry_points(corpus);
    add_modes(corpus);
    add_modifiers(corpus);
    add_backward(corpus);
    add_changes(corpus);
    return corpus.ok() ? 0 : 1;
}
