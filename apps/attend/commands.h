#pragma once

#include <CLI/App.hpp>

namespace attend::app {

// Each function adds a subcommand with its flags, help and callback to `app`.
void add_train_command(CLI::App& app);
void add_lr_find_command(CLI::App& app);
void add_eval_command(CLI::App& app);
void add_predict_command(CLI::App& app);
void add_embed_command(CLI::App& app);
void add_generate_command(CLI::App& app);
void add_export_command(CLI::App& app);
void add_import_command(CLI::App& app);
void add_models_command(CLI::App& app);
void add_tasks_command(CLI::App& app);
void add_inspect_command(CLI::App& app);
void add_runs_command(CLI::App& app);
void add_compare_command(CLI::App& app);
void add_explain_command(CLI::App& app);
void add_report_command(CLI::App& app);
void add_serve_command(CLI::App& app);
void add_bench_command(CLI::App& app);
void add_completion_command(CLI::App& app);

}  // namespace attend::app
