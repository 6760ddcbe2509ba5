#pragma once

/// Everything an application embeds: attention, modules, models, files, export.

#include "attend/models/language_model.h"
#include "attend/nn/feed_forward.h"
#include "attend/nn/multihead_attention.h"
#include "attend/nn/self_attention.h"
#include "attend/nn/sinusoidal_positions.h"
#include "attend/nn/token_embedding.h"
#include "attend/nn/transformer_block.h"
#include "attend/ops/activation.h"
#include "attend/ops/attention.h"
#include "attend/ops/attention_recorder.h"
#include "attend/ops/masks.h"
#include "attend/ops/positions.h"
#include "attend/support/enum_names.h"
#include "attend/support/input_error.h"
