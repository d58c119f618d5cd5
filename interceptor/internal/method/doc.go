// Package method knows gRPC methods by name: patterns that select them, and
// what their .proto says of them.
package method
