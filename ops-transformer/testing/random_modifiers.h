// The part of the case generator that adds bias, dropout, sink, rope parts, prefixes and the layout of the statistics.
#pragma once

#include "testing/draw.h"
#include "testing/random_cases.h"

namespace flash_attention::testing {

// Makes the case one of the modifier's; lengths, sizes and windows are adapted later.
void add_modifier(Draw& draw, Case& c, size_t modifier);
// Others that may go with what the case has, each with a chance of its own.
void add_more_modifiers(Draw& draw, Case& c);

// What the rules about lengths leave, once modifiers are chosen. Lengths are as they were where no rule asks for more.
void adapt_lengths(Draw& draw, Case& c);

// Prefixes and start indices, once lengths are final.
void draw_lists(Draw& draw, Case& c);

}  // namespace flash_attention::testing
