// Random calls with a stated distribution.
//
// Two tables of cells are visited in turn, so that as many cases as a table has cells already fill it: layout x element
// type x mode x mask shape (random_case), and layout x element type x mode x modifier (modifier_case). Everything else
// is drawn:
//   lengths    a third of the cases has a sequence with more than 128 rows and more than 128 keys, so that it crosses
//              two query blocks and two key blocks of any block size up to 128; other lengths are those around tile
//              edges (1, 7, 8, 9, 15 ... 129, now and then 513), some sequences of TND are empty
//   D          1 ... 768, common sizes more often; Dv <= D
//   heads      1 to 8, groups of 1, 2, 3, 4 and 8
//   scale      mostly 1/sqrt(D), else 0, negative or arbitrary
//   masks      all contents; pre and next around the lengths, around 0 and at the ends of int64, as far as the mode's
//              rules allow
//   values     normal, all positive, large logits, one high key, hidden or visible NaN and infinities, logits of
//              -infinity
//   views      each operand is strided in a third of the cases
//   modifiers  random_case: half of the cases has a bias, dropout, sink, rope parts, another layout of the statistics
//   or
//              a mix; modifier_case: the cell's, and in half of the cases others with it
//   version    half of the cases calls the smallest that can; the others any that can
//   backward   the same cases, smaller where the reference would take long, without what backward refuses; the gradient
//              of a bias is wanted in half of the cases that have one; a quarter takes output and statistics of the
//              forward operator
#pragma once

#include <string>
#include <vector>

#include "testing/case.h"

namespace flash_attention::testing {

// One cell of the first table.
struct Cell {
    std::string layout;
    DType dtype;
    int64_t mode;
    MaskShape mask;
    bool operator==(const Cell&) const = default;
};

// All legal cells, in the order in which cases visit them.
const std::vector<Cell>& cells();
inline int64_t cell_count() {
    return static_cast<int64_t>(cells().size());
}
Cell cell_of(const Case& c);

// One cell of the second table. Its cases have a mask, since the mode means nothing without; a case with several
// modifiers falls into several cells.
struct ModifierCell {
    std::string layout;
    DType dtype;
    int64_t mode;
    size_t modifier;  // index into modifier_names()
};
const std::vector<std::string>& modifier_names();
const std::vector<ModifierCell>& modifier_cells();
inline int64_t modifier_cell_count() {
    return static_cast<int64_t>(modifier_cells().size());
}
bool falls_into(const Case& c, const ModifierCell& cell);

// Case number `index` of the sequence that `seed` starts. Always legal.
Case random_case(uint64_t seed, int64_t index, bool backward = false);
Case modifier_case(uint64_t seed, int64_t index, bool backward = false);

// Number i of a table's cases, in an order that spreads a small number over all cells.
int64_t spread(int64_t i, int64_t cells);
// `count` cases, three of eight from the table of modes and masks, five from the larger one of modes and modifiers.
std::vector<Case> mixed_cases(uint64_t seed, int64_t count, bool backward = false);

// Whether some sequence has more than 128 rows and more than 128 keys.
bool crosses_blocks(const Case& c);

// How many of bias, dropout, sink, rope parts and same_as_input the case has. Prefixes belong to modes 5 and 6.
int64_t modifier_count(const Case& c);

// How many cases fall into each cell, as a table with one line a mode and mask shape, or a mode and modifier.
std::string coverage_table(const std::vector<Case>& cases);
std::string modifier_table(const std::vector<Case>& cases);

}  // namespace flash_attention::testing
