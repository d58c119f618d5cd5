package testserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// slots is how many hash slots a Redis Cluster has.
const slots = 16384

// RedisCluster is three Redis masters, each with a third of the hash slots and
// no replica.
type RedisCluster struct {
	// Nodes are its servers, by ascending slots.
	Nodes []*Server
}

// StartRedisCluster starts a Redis Cluster for this test alone and returns
// when all of it answers.
func StartRedisCluster(tb testing.TB) *RedisCluster {
	tb.Helper()
	cluster := new(RedisCluster)
	for range 3 {
		bus, err := freePort()
		if err != nil {
			tb.Fatal(err)
		}
		cluster.Nodes = append(cluster.Nodes, StartRedis(tb, "cluster-enabled yes",
			"cluster-port "+strconv.Itoa(bus), "cluster-node-timeout 2000", "appendonly yes"))
	}
	if err := cluster.join(); err != nil {
		tb.Fatalf("testserver: make a Redis Cluster: %v", err)
	}
	return cluster
}

// Addrs returns the addresses of all nodes as host:port.
func (c *RedisCluster) Addrs() []string {
	var addrs []string
	for _, node := range c.Nodes {
		addrs = append(addrs, node.Addr())
	}
	return addrs
}

// join shares the slots out, makes the nodes known to each other and waits
// until each of them finds the cluster whole.
func (c *RedisCluster) join() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	first := c.Nodes[0]
	var errs []error
	for i, node := range c.Nodes {
		from, to := i*slots/len(c.Nodes), (i+1)*slots/len(c.Nodes)-1
		errs = append(errs,
			tell(ctx, node, fmt.Sprintf("CLUSTER SET-CONFIG-EPOCH %d", i+1)),
			tell(ctx, node, fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d %d", from, to)))
	}
	for _, node := range c.Nodes[1:] {
		bus, err := redisSetting(ctx, node.port, "cluster-port")
		if err != nil {
			return err
		}
		errs = append(errs, tell(ctx, first, fmt.Sprintf("CLUSTER MEET 127.0.0.1 %d %s", node.port, bus)))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, node := range c.Nodes {
		if err := awaitCluster(ctx, node, len(c.Nodes)); err != nil {
			return err
		}
	}
	return nil
}

// tell sends a command whose reply says nothing but that it was done.
func tell(ctx context.Context, node *Server, command string) error {
	_, err := askRedis(ctx, node.port, command)
	return err
}

// awaitCluster waits until the node finds all slots served by n masters.
func awaitCluster(ctx context.Context, node *Server, n int) error {
	want := []string{"cluster_state:ok", fmt.Sprintf("cluster_known_nodes:%d", n), fmt.Sprintf("cluster_size:%d", n)}
	for {
		info, err := askRedis(ctx, node.port, "CLUSTER INFO")
		if err != nil {
			return err
		}
		lines := strings.Fields(strings.Join(info, " "))
		if !slices.ContainsFunc(want, func(line string) bool { return !slices.Contains(lines, line) }) {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the node does not find the cluster whole after %v:\n%s", startTimeout, info)
		}
	}
}
