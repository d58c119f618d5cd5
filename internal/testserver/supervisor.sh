# Runs one server and ends it when it is told to, or when the process that
# would tell it is gone.
#
#   supervisor.sh LOG FOLDER SIGNAL COMMAND [ARGUMENT...]
#
# The first line of standard output is the server's process id. Standard output
# ends when the server and all processes that it started have ended. A line on
# standard input is a signal to end the server with. The end of standard input
# ends it with SIGNAL and removes FOLDER.
log=$1 folder=$2 signal=$3
shift 3
trap '' HUP INT QUIT TERM
"$@" 4>&1 </dev/null >>"$log" 2>&1 &
server=$!
echo "$server"
exec >/dev/null
read -r order || order=
kill -s "${order:-$signal}" "$server"
wait "$server"
[ -n "$order" ] || rm -rf "$folder"
