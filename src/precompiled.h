// Precompiled once for the whole project: what nearly every file needs of LibTorch, and no more,
// since each file pays for the size of this one, some seconds. No public header may lean on it: the
// test `headers.self_contained` compiles each without it.
#include <torch/nn/cloneable.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>
