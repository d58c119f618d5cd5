package testserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// redisConn speaks as much of Redis' protocol as starting servers takes:
// commands as inline text, replies that are strings, numbers or lists of them.
// https://redis.io/docs/latest/develop/reference/protocol-spec/
type redisConn struct {
	conn  net.Conn
	reply *bufio.Reader
}

func dialRedis(ctx context.Context, port int) (*redisConn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address(port))
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return &redisConn{conn: conn, reply: bufio.NewReader(conn)}, nil
}

func (c *redisConn) close() { c.conn.Close() }

// do sends one command and returns its reply.
func (c *redisConn) do(command string) ([]string, error) {
	if _, err := io.WriteString(c.conn, command+"\r\n"); err != nil {
		return nil, err
	}
	reply, err := c.read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	return reply, nil
}

func (c *redisConn) read() ([]string, error) {
	line, err := c.reply.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("an empty reply")
	}
	switch rest := line[1:]; line[0] {
	case '+', ':':
		return []string{rest}, nil
	case '-':
		return nil, errors.New(rest)
	case '$':
		return c.readString(rest)
	case '*':
		return c.readList(rest)
	}
	return nil, fmt.Errorf("a reply that is not known: %q", line)
}

func (c *redisConn) readString(length string) ([]string, error) {
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 {
		return nil, err
	}
	text := make([]byte, n+len("\r\n"))
	if _, err := io.ReadFull(c.reply, text); err != nil {
		return nil, err
	}
	return []string{string(text[:n])}, nil
}

func (c *redisConn) readList(length string) ([]string, error) {
	n, err := strconv.Atoi(length)
	if err != nil {
		return nil, err
	}
	var list []string
	for range n {
		item, err := c.read()
		if err != nil {
			return nil, err
		}
		list = append(list, item...)
	}
	return list, nil
}
