package server_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/retrysafe/retrysafe/ledgerdemo/database"
	"github.com/retrysafe/retrysafe/ledgerdemo/server"
)

func ExampleRun() {
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	store := database.URL{Kind: database.SQLite, Address: filepath.Join(dir, "ledger.db")}
	config := server.Config{Addr: "127.0.0.1:0", Store: store}
	err = server.Run(ctx, config, func(addr net.Addr) {
		fmt.Println(health(ctx, addr.String()))
		stop() // as SIGTERM would
	})
	fmt.Println("stopped:", err)
	// Output:
	// SERVING
	// stopped: <nil>
}

func health(ctx context.Context, addr string) string {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	res, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{})
	if err != nil {
		return err.Error()
	}
	return res.GetStatus().String()
}
