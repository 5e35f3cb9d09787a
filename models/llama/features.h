// Types of models of Llama's layers have these parts in common, from which their files choose.
#pragma once
#include "models/llama/variant.h"

namespace zrt::models {

LlamaFeature silu_gate();  // the activation of the MLP's gate
// Rotary positions that are never stretched. `file_base` is that of a config.json without one.
LlamaFeature plain_positions(double file_base = 10000);
LlamaFeature stretched_positions();  // positions of the section model.rope_scaling, of every rule
LlamaFeature full_attention();       // config.json may list the layers' types, all alike
// Every layer attends to a window. config.json without one has one of so many tokens, 0: none.
LlamaFeature window_of_all_layers(int64_t file_window);
// Layers from model.max_window_layers on attend to a window, where config.json says use_sliding_window.
LlamaFeature window_of_last_layers();
// Keys of config.json, `written` in every export, and others that change nothing or have one legal value.
LlamaFeature file_keys(std::vector<ConfigKey> keys, OrderedJson written = OrderedJson::object());

}  // namespace zrt::models
