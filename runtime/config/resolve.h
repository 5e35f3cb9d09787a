// Checks a configuration against the key table and lists every key in force with its value and origin.
#pragma once
#include "runtime/config/key_table.h"
#include "runtime/config/tree.h"

namespace zrt::runtime::configuration {

// The keys of every section that holds an implemented key or was given, in the order of the table: given values, then
// defaults. An unknown key, a value of a wrong type and a request that is refused are added to the problems, and the
// default stands for the value; an inert key becomes a warning; "auto" counts as left out; keys that begin with '_' are
// passed by. Ranges and relations between keys are left to the caller.
Values resolve_keys(const Tree& tree);

// Says whether `value`, coerced already, asks for nothing but what happens anyway: the default, a value listed as
// harmless, or an object that only switches things off.
bool harmless(const Key& key, const nlohmann::json& value);

}  // namespace zrt::runtime::configuration
