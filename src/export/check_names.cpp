#include "export/check_names.h"

#include "attend/io/utf8.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

namespace attend {
namespace {

using Names = std::set<std::string_view>;

/// Returns the words of a text.
Names names_in(std::string_view text) {
  Names names;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find(' ', begin), text.size());
    names.insert(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

bool is_among(const Names& names, std::string_view name) {
  return names.count(name) > 0;
}

/// Returns true if a string literal in the code of an exported file can contain the name without
/// escapes.
bool is_plain_text(std::string_view name) {
  return std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return c >= ' ' && c < 0x7f && c != '"' && c != '\\'; });
}

bool is_python_special(std::string_view name) {
  return name.size() > 4 && name.starts_with("__") && name.ends_with("__");
}

bool is_python_keyword(std::string_view name) {
  static const auto all = names_in(
      "False None True and as assert async await break class continue def del elif else except "
      "finally for from global if import in is lambda nonlocal not or pass raise return try "
      "while with yield");
  return is_among(all, name);
}

/// Returns true for the words that the parser of TorchScript reserves. Python's other keywords,
/// such as `lambda`, are not reserved.
bool is_torchscript_keyword(std::string_view name) {
  static const auto all = names_in(
      "Ellipsis False None NoneType True and as assert break class continue def del elif else "
      "for global if import in is not or pass raise return torch while with");
  return is_among(all, name);
}

/// Returns true for the names of attributes that torch.jit.load needs in each module.
bool is_script_module_attribute(std::string_view name) {
  static const auto all = names_in(
      "_backward_hooks _backward_pre_hooks _buffers _c _concrete_type _forward_hooks "
      "_forward_pre_hooks _initializing _load_state_dict_post_hooks _load_state_dict_pre_hooks "
      "_modules _parameters _state_dict_hooks _state_dict_pre_hooks forward training");
  return is_among(all, name);
}

/// Returns true for the names of the attributes of torch.nn.Module. Each module of a loaded .pt2
/// archive has these attributes.
bool is_module_attribute(std::string_view name) {
  static const auto all = names_in(
      "T_destination _apply _backward_hooks _backward_pre_hooks _buffers _call_impl "
      "_compiled_call_impl _forward_hooks _forward_hooks_always_called "
      "_forward_hooks_with_kwargs _forward_pre_hooks _forward_pre_hooks_with_kwargs "
      "_get_backward_hooks _get_backward_pre_hooks _get_name _is_full_backward_hook "
      "_load_from_state_dict _load_state_dict_post_hooks _load_state_dict_pre_hooks "
      "_maybe_warn_non_full_backward_hook _modules _named_members _non_persistent_buffers_set "
      "_parameters _register_load_state_dict_pre_hook _register_state_dict_hook "
      "_replicate_for_data_parallel _save_to_state_dict _slow_forward _state_dict_hooks "
      "_state_dict_pre_hooks _version _wrapped_call_impl add_module apply bfloat16 buffers "
      "call_super_init children compile cpu cuda double dump_patches eval extra_repr float "
      "forward get_buffer get_extra_state get_parameter get_submodule half ipu load_state_dict "
      "modules mtia named_buffers named_children named_modules named_parameters parameters "
      "register_backward_hook register_buffer register_forward_hook register_forward_pre_hook "
      "register_full_backward_hook register_full_backward_pre_hook "
      "register_load_state_dict_post_hook register_load_state_dict_pre_hook register_module "
      "register_parameter register_state_dict_post_hook register_state_dict_pre_hook "
      "requires_grad_ set_extra_state set_submodule share_memory state_dict to to_empty train "
      "training type xpu zero_grad");
  return is_among(all, name);
}

/// Returns true for names that the module returned by `torch.export.load(...).module()` uses:
/// attributes that torch.fx.GraphModule has and torch.nn.Module does not have, and variables in the
/// generated code of the module.
bool is_graph_module_attribute(std::string_view name) {
  static const auto all = names_in(
      "_boxed_call _code _create_node_hooks _deepcopy_hooks _deepcopy_init _erase_node_hooks "
      "_graph _guards_fn _in_spec _lineno_map _out_spec _prologue_start _recompile_submodules "
      "_register_create_node_hook _register_deepcopy_hook _register_erase_node_hook "
      "_register_replace_node_hook _replace_hooks _set_replace_hook _tracer_cls _tracer_extras "
      "_unregister_create_node_hook _unregister_deepcopy_hook _unregister_erase_node_hook "
      "_unregister_replace_node_hook _wrapped_call add_submodule code "
      "delete_all_unused_submodules delete_submodule graph meta print_readable "
      "range_constraints recompile self shape_env to_folder validate_inputs");
  return is_among(all, name);
}

/// Returns the rule that the name of a parameter, buffer or submodule violates, or "" if the name
/// is valid.
const char* state_name_error(std::string_view name, bool is_top_level, TargetFormat format) {
  if (replace_invalid_utf8(std::string(name)) != name) return "must be UTF-8";
  if (format == TargetFormat::onnx) return "";
  if (!is_plain_text(name))
    return "must consist of printable ASCII characters other than \" and \\";
  if (is_python_special(name)) return "must not begin and end with __";
  if (format == TargetFormat::torchscript) {
    if (is_torchscript_keyword(name)) return "must not be a keyword of TorchScript";
    if (is_script_module_attribute(name))
      return "must not be an attribute of torch.jit.ScriptModule";
    return "";
  }
  if (is_python_keyword(name)) {
    return "must not be a Python keyword, since Python cannot run code with this name";
  }
  if (is_module_attribute(name)) return "must not be an attribute of torch.nn.Module";
  if (is_top_level && is_graph_module_attribute(name)) {
    return "must not be an attribute of torch.fx.GraphModule";
  }
  return "";
}

/// Returns the rule that the name of an input or method violates, or "" if the name is valid.
const char* identifier_error(std::string_view name, TargetFormat format) {
  if (format == TargetFormat::onnx) return "";
  if (!is_identifier(name)) {
    return "must be identifiers (letters, digits and _, without a leading digit)";
  }
  if (is_python_keyword(name)) return "must not be Python keywords";
  static const auto torchscript = names_in(
      "CONSTANTS Ellipsis NoneType _ fork getattr inf nan ops self torch unchecked_cast "
      "uninitialized");
  static const auto pt2 = names_in("device fx_pytree inf nan pytree self torch");
  const auto& used = format == TargetFormat::torchscript ? torchscript : pt2;
  return is_among(used, name) ? "must not be names that the code in the file uses" : "";
}

/// Returns the end of an error message, such as ", or export to .pt2 or ONNX". It names the formats
/// for which `error_of` returns "". Returns "" if there is no such format.
template <typename Function>
std::string other_formats(const Function& error_of) {
  std::string text;
  const auto add = [&](const char* label, TargetFormat format) {
    if (*error_of(format) == '\0')
      text += (text.empty() ? ", or export to " : " or ") + std::string(label);
  };
  add("TorchScript", TargetFormat::torchscript);
  add(".pt2", TargetFormat::pt2);
  add("ONNX", TargetFormat::onnx);
  return text;
}

}  // namespace

bool is_identifier(std::string_view name) {
  const auto fits = [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && std::all_of(name.begin(), name.end(), fits) &&
         (name.front() < '0' || name.front() > '9');
}

void check_input_name(const std::string& name, TargetFormat format) {
  const auto error_of = [&](TargetFormat any) { return identifier_error(name, any); };
  const std::string error = error_of(format);
  TORCH_CHECK_VALUE(error.empty(), "input_names ", error, ", found '", name,
                    "'; choose another name", other_formats(error_of));
}

void check_method_name(const std::string& name) {
  const std::string error = identifier_error(name, TargetFormat::torchscript);
  TORCH_CHECK_VALUE(error.empty(), "method names ", error, ", found '", name, "'");
}

void check_state_names(const torch::nn::Module& module, TargetFormat format) {
  const auto check = [&](const char* what, const std::string& path) {
    const auto dot = path.rfind('.');
    const auto name = path.substr(dot + 1);
    const auto error_of = [&](TargetFormat any) {
      return state_name_error(name, dot == std::string::npos, any);
    };
    const std::string error = error_of(format);
    TORCH_CHECK_VALUE(error.empty(), "the name of a ", what, " ", error, ", found '", path,
                      "'; choose another name", other_formats(error_of));
  };
  for (const auto& item : module.named_parameters()) check("parameter", item.key());
  for (const auto& item : module.named_buffers()) check("buffer", item.key());
  for (const auto& item : module.named_modules(/*name_prefix=*/{}, /*include_self=*/false)) {
    check("module", item.key());
  }
}

}  // namespace attend
