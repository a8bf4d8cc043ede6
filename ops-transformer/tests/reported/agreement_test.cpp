// Situations whose right answer is what the formulas give: each call is compared with the reference, which also finds
// results that are not finite, elements that were not written, and reads and writes outside of the tensors.
#include <fmt/format.h>

#include "reported.h"

namespace flash_attention::testing {
namespace {

class AgreesWithTheReference : public ::testing::TestWithParam<Reported> {};

TEST_P(AgreesWithTheReference, InEveryElement) {
    for (const std::string& text : GetParam().calls) {
        const Case c = parse_case(text);
        EXPECT_EQ(why_illegal(c), "") << text;
        EXPECT_EQ(lines(check_case(c)), "");
    }
}

// Every combination of element type and text.
Reported in_all_types(const std::string& id, const std::vector<std::string>& texts) {
    Reported reported{id, {}};
    for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16}) {
        for (const std::string& text : texts) {
            reported.calls.push_back(fmt::format("{} dtype={}", text, name_of(dtype)));
        }
    }
    return reported;
}

// One text for each number, which takes the place of "{0}".
std::vector<std::string> with_numbers(const std::string& text, const std::vector<int64_t>& numbers) {
    std::vector<std::string> texts;
    for (const int64_t number : numbers) texts.push_back(fmt::format(fmt::runtime(text), number));
    return texts;
}

Reported reported(const std::string& id, std::vector<std::string> calls) {
    return {id, std::move(calls)};
}

// Group sizes 1, 2, 3, 4, 6 and 12, none of them the number of key heads; head dimensions of query and value differ.
std::vector<std::string> grouped_heads() {
    return with_numbers("layout=TND dtype=fp32 n=12/{} d=48 dv=32 q=10,27 kv=10,27 mode=3 mask=compressed",
                        {12, 6, 4, 3, 2, 1});
}

// Lengths around edges of blocks; the long ones with fewer heads, which is as many groups of three.
std::vector<std::string> grouped_causal_lengths() {
    std::vector<std::string> texts = with_numbers(
        "layout=BSND dtype=fp16 n=24/8 d=128 q={0} kv={0} mode=3 mask=compressed", {15, 16, 17, 24, 31, 32, 33});
    const auto large = reduced<std::vector<int64_t>>({1000, 1023, 1024, 1025}, {250, 255, 256, 257});
    for (const std::string& text :
         with_numbers("layout=BSND dtype=fp16 n=3/1 d=128 q={0} kv={0} mode=3 mask=compressed", large)) {
        texts.push_back(text);
    }
    return texts;
}

// Every D has to work in every layout, with Dv equal or smaller.
std::vector<std::string> head_dimensions() {
    std::vector<std::string> texts;
    constexpr std::pair<int, int> kSizes[] = {{64, 64},   {72, 72},   {80, 80},   {96, 96},   {128, 128},
                                              {192, 128}, {192, 192}, {256, 256}, {512, 512}, {576, 512}};
    for (const auto& [d, dv] : kSizes) {
        texts.push_back(fmt::format("layout=TND dtype=bf16 n={} d={} dv={} q=100,200 kv=100,200 mode=3 mask=compressed",
                                    reduced(4, 1), d, dv));
        for (const char* layout : {"BSH", "SBH", "BSND", "BNSD"}) {
            texts.push_back(fmt::format("layout={} dtype=bf16 b=2 n=2/1 d={} dv={} q={} kv=70 mode=3 mask=compressed",
                                        layout, d, dv, reduced(40, 9)));
        }
    }
    return texts;
}

const std::vector<Reported>& causal_and_windows() {
    static const std::vector<Reported> all = {
        reported("FA-14", {"layout=TND dtype=bf16 n=4 d=64 q=7,13 kv=30,15 mode=2 mask=compressed",
                           "layout=TND dtype=bf16 n=4 d=64 q=7,13 kv=30,15 mode=3 mask=compressed"}),
        reported("CPU-06", grouped_causal_lengths()),
        reported("CPU-12", {"layout=TND dtype=bf16 n=16/2 d=128 q=45 kv=345 mode=3 mask=compressed",
                            "layout=TND dtype=bf16 n=16/2 d=128 q=45 kv=345 mode=6 prefix=310 mask=compressed"}),
        reported("ASC-25", with_numbers("layout=TND dtype=fp16 n=6 d=59 q=16,16 kv={0},{0} mode=4 pre=0 next=256 "
                                        "mask=compressed",
                                        {reduced(20000, 3000)})),
        reported("ASC-05", {"layout=TND dtype=fp16 n=8/4 d=64 q=128,32 kv=1152,288 mode=4 pre=255 next=0 "
                            "mask=compressed"}),
        reported("CPU-13", {"layout=BSND dtype=fp32 n=12 d=64 q=512 kv=512 mode=4 pre=64 next=64 mask=compressed"}),
        reported("FA-11", {"layout=BNSD dtype=fp32 n=1 d=8 q=10 kv=10 mode=4 pre=0 next=0 mask=compressed",
                           "layout=BNSD dtype=fp32 n=1 d=8 q=10 kv=10 mode=4 pre=0 next=3 mask=compressed",
                           "layout=BNSD dtype=fp32 n=1 d=8 q=10 kv=10 mode=4 pre=3 next=0 mask=compressed"}),
        in_all_types("CPU-24", {"layout=BNSD n=2/1 d=40 q=33 kv=70 mode=0 pre=20 next=30 mask=2d:random",
                                "layout=BNSD n=2/1 d=40 q=33 kv=70 mode=1 mask=11:rows",
                                "layout=BNSD n=2/1 d=40 q=33 kv=70 mode=2 mask=compressed",
                                "layout=BNSD n=2/1 d=40 q=33 kv=70 mode=3 mask=compressed",
                                "layout=BNSD n=2/1 d=40 q=70 kv=33 mode=3 mask=compressed",
                                "layout=BNSD n=2/1 d=40 q=33 kv=70 mode=4 pre=20 next=30 mask=compressed",
                                "layout=BNSD n=2/1 d=40 q=33 kv=70 mode=5 prefix=50 mask=b1:rows",
                                "layout=BNSD n=2/1 d=40 q=70 kv=33 mode=6 prefix=0 mask=compressed",
                                "layout=TND n=2/1 d=40 q=33,20,0 kv=70,20,5 mode=7 pre=70 next=0 mask=compressed",
                                "layout=TND n=2/1 d=40 q=0,33,20 kv=5,70,20 mode=8 pre=70 next=4 mask=compressed"}),
        reported("SINK-06", {"layout=TND dtype=bf16 n=64/8 d=64 q=128 kv=128 mode=4 pre=127 next=0 mask=compressed "
                             "sink=large",
                             "layout=TND dtype=bf16 n=64/8 d=64 q=70,1 kv=128,50 mode=4 pre=30 next=0 mask=compressed "
                             "sink=normal"}),
    };
    return all;
}

const std::vector<Reported>& heads_and_dimensions() {
    static const std::vector<Reported> all = {
        reported("GRAD-08", grouped_heads()),
        reported("ASC-21", head_dimensions()),
        reported("ASC-24", with_numbers("layout=BSND dtype=fp16 n=2/1 d={} q=64 kv=64",
                                        {1, 3, 7, 8, 15, 17, 40, 59, 63, 72, 100, 129, 200, 201, 224, 250, 511})),
        reported("MLA-03", {"layout=TND dtype=bf16 n=4 d=192 dv=128 q=50,100,1 kv=50,100,1 mode=3 mask=compressed",
                            "layout=BSND dtype=bf16 n=4 d=192 dv=128 q=100 kv=100 mode=3 mask=compressed"}),
        in_all_types("PT-23", {"layout=BNSD b=5 n=4 d=8 q=10 kv=10"}),
        in_all_types("FA-30", {"layout=BNSD b=2 n=2 d=64 q=256 kv=256"}),
        reported("PT-33",
                 {"layout=BNSD dtype=fp32 n=4 d=64 q=100 kv=100", "layout=BNSD dtype=fp32 n=8/2 d=64 q=100 kv=100"}),
        reported("ASC-26", {reduced("layout=TND dtype=bf16 n=16/4 d=201 q=129,129 kv=513,513",
                                    "layout=TND dtype=bf16 n=8/2 d=201 q=65,65 kv=201,201"),
                            reduced("layout=TND dtype=fp16 n=24/2 d=224 q=129 kv=513",
                                    "layout=TND dtype=fp16 n=12/1 d=224 q=65 kv=201"),
                            reduced("layout=TND dtype=bf16 n=24/4 d=63 q=128,128,128,128,128 kv=129,129,129,129,129 "
                                    "mode=3 mask=compressed",
                                    "layout=TND dtype=bf16 n=12/2 d=63 q=128,128 kv=129,129 mode=3 mask=compressed"),
                            // Few rows, where keys are cut into chunks.
                            "layout=TND dtype=bf16 n=16/4 d=201 q=1,2 kv=2513,1026",
                            "layout=TND dtype=fp16 n=24/2 d=224 q=1 kv=5000"}),
    };
    return all;
}

const std::vector<Reported>& lengths() {
    static const std::vector<Reported> all = {
        reported("ASC-02", {"layout=TND dtype=fp16 n=16 d=80 q=64 kv=64",
                            "layout=TND dtype=fp16 n=16 d=80 q=64,128 "
                            "kv=64,128",
                            "layout=TND dtype=fp16 n=16 d=80 q=64,128,8,256 kv=64,128,8,256"}),
        reported("ASC-30", {fmt::format("layout=TND dtype=bf16 n={} d=64 q=513,200,400,100,500,40,250,150 "
                                        "kv=513,200,400,100,500,40,250,150",
                                        reduced(4, 1)),
                            fmt::format("layout=TND dtype=bf16 n={} d=96 q=562 kv=562", reduced(4, 1))}),
        reported("PT-36", {"layout=TND dtype=fp16 n=16 d=64 q=96,0,0,128,96,64,0,32 kv=96,0,0,128,96,64,0,32"}),
        reported("FA-05", {"layout=TND dtype=fp32 n=2 d=32 q=150,0,150 kv=100,100,100"}),
        // Rows and keys that no sequence has; keys there may hold anything.
        reported("ASC-16", {"layout=TND dtype=fp16 n=4 d=64 q=2,3 kv=2,3 slack=3/3 mode=3 mask=compressed",
                            "layout=TND dtype=fp16 n=4 d=64 q=2,3 kv=2,3 slack=3/3 mode=3 mask=compressed "
                            "values=hidden_nan",
                            "layout=TND dtype=bf16 n=2/1 d=80 q=130,0,7 kv=140,3,9 slack=70/1 values=hidden_nan"}),
        reported("ASC-18", {"layout=TND dtype=fp16 n=16 d=64 q=9,0,0 kv=9,0,0 slack=503/503",
                            "layout=TND dtype=fp16 n=16 d=64 q=9 kv=9 tail=2 slack=503/503"}),
        reported("FA-25", {"layout=TND dtype=fp16 n=4 d=32 q=1,1,1,512 kv=1,1,1,512",
                           "layout=TND dtype=fp16 n=4 d=32 q=1,1,1,512 kv=1,1,1,512 stats=same_as_input",
                           "layout=TND dtype=fp16 n=4/2 d=32 q=3,0,70,1 kv=5,2,90,0 slack=4/2 stats=same_as_input"}),
        in_all_types("PT-31", {"layout=BNSD b=2 n=4 d=32 q=64 kv=64 mode=1 mask=b1:random strides=mask:transposed",
                               "layout=BNSD b=2 n=4 d=32 q=64 kv=64 mode=1 mask=b1:random strides=mask:expand",
                               "layout=BNSD b=2 n=4 d=32 q=64 kv=64 mode=1 mask=b1:random strides=mask:expand_last",
                               "layout=BNSD b=2 n=4 d=32 q=64 kv=64 mode=1 mask=bn:rows strides=mask:every2,pse:padded "
                               "pse=1:full",
                               "layout=BNSD b=2 n=4 d=32 q=64 kv=64 pse=0:full strides=pse:transposed,v:every2",
                               "layout=BNSD b=2 n=4 d=32 q=64 kv=64 pse=0:row strides=pse:expand,q:padded,k:swapped"}),
        // A mask is read where it lies, whatever shape it is of.
        reported("PT-08", {"layout=BNSD dtype=fp32 b=2 n=4 d=16 q=8 kv=33 mode=1 mask=bn:random",
                           "layout=BNSD dtype=fp32 b=2 n=4 d=16 q=8 kv=33 mode=1 mask=b1:random",
                           "layout=BNSD dtype=fp32 b=2 n=4 d=16 q=8 kv=33 mode=1 mask=11:random",
                           "layout=BNSD dtype=fp32 b=2 n=4 d=16 q=8 kv=33 mode=1 mask=2d:random",
                           "layout=BNSD dtype=fp32 b=2 n=4 d=16 q=1 kv=33 mode=1 mask=bn:random",
                           "layout=BNSD dtype=fp32 b=2 n=4 d=16 q=1 kv=33 mode=1 mask=2d:random",
                           "layout=BNSD dtype=fp32 b=2 n=4 d=16 q=8 kv=1 mode=1 mask=bn:random",
                           "layout=BNSD dtype=fp32 b=2 n=4 d=16 q=8 kv=1 mode=1 mask=2d:random",
                           "layout=BNSD dtype=fp32 b=2 n=4 d=16 q=1 kv=1 mode=1 mask=11:random"}),
    };
    return all;
}

INSTANTIATE_TEST_SUITE_P(CausalAndWindows, AgreesWithTheReference, ::testing::ValuesIn(causal_and_windows()),
                         test_name);
INSTANTIATE_TEST_SUITE_P(HeadsAndDimensions, AgreesWithTheReference, ::testing::ValuesIn(heads_and_dimensions()),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Lengths, AgreesWithTheReference, ::testing::ValuesIn(lengths()), test_name);

}  // namespace
}  // namespace flash_attention::testing
