// The element-wise optimizers. A rule says once what all back ends do with one element:
//   Params: its hyperparameters, weight_decay, moments and lr_scale among them;
//   Scalars, scalars(params, decision): the numbers of a step that come of them and of the decision;
//   variants, variant(params): loops of their own;  states(variant): fp32 numbers it keeps of an element, at most 2;
//   apply<variant>(scalars, gradient, weight, state 0, state 1).
// Rules have internal linkage: they are compiled once per instruction set (element_kernels.h) and for the GPU.
#pragma once
#include "optimizer/adam_rule.h"
#include "optimizer/lion_rule.h"
#include "optimizer/muon_rule.h"
#include "optimizer/sgd_rule.h"

// X(step, name, Name): a back end's function, the tables of kernels NAME_kernels, NameParams and NameRule.
#define ZRT_ELEMENT_RULES(X) \
  X(adam_step, adam, Adam) \
  X(sgd_step, sgd, Sgd) \
  X(lion_step, lion, Lion) \
  X(muon_step, muon, Muon)
