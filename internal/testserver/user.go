package testserver

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// attributes puts a server into a session of its own, out of reach of the
// terminal's signals, as a user that is not root.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Credential: servant()}
}

// servant is the user that servers run as where the tests run as root, nil
// elsewhere.
func servant() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		account, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(account.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(account.Gid, 10, 32)
		if uidErr == nil && gidErr == nil && uid != 0 {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	return nil
}

// newFolder makes a temporary folder that servers may write to.
func newFolder(name string) (string, error) {
	folder, err := os.MkdirTemp("", "retrysafe-"+name+"-")
	if err != nil {
		return "", err
	}
	if to := servant(); to != nil {
		if err := os.Chown(folder, int(to.Uid), int(to.Gid)); err != nil {
			return "", fmt.Errorf("give %s to an unprivileged user: %w", folder, err)
		}
	}
	return folder, nil
}
