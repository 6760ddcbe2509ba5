// The precompiled header without a unity build: the headers of LibTorch that nearly every source
// includes. Keep it small, because every source of these targets loads it. Public headers must
// compile without it; the test `headers.self_contained` checks this.
#include <torch/nn/cloneable.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>
