# shellcheck shell=bash
# Sourced by the scripts of this project.

# Prints the comment that a script begins with: its --help.
show_help() { awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0"; }

# step TITLE COMMAND...: prints the title, runs the command, prints how long it took.
step() {
  local title=$1 start=$SECONDS
  shift
  printf '==> %s\n' "$title"
  "$@"
  printf '    done in %d s\n' $((SECONDS - start))
}
