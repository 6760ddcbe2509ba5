# shellcheck shell=bash
# Functions shared by the scripts.

# Prints the comment at the top of the script that calls this function. The comment is its --help text.
show_help() { awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0"; }

# step TITLE COMMAND...: prints the title, runs the command, prints its duration.
step() {
  local title=$1 start=$SECONDS
  shift
  printf '==> %s\n' "$title"
  "$@"
  printf '    done in %d s\n' $((SECONDS - start))
}
