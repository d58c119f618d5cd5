// Package demo lets clients debit a ledger while everything breaks, and then
// audits the ledger's database.
//
//	16 clients ──TCP──▶ proxy that cuts connections ──TCP──▶ server ──▶ file
//	    │                                                      ▲
//	    └── count what they were told      killed and started ─┘
//
// The server is a process of its own. It loses responses after the commit,
// refuses bursts of calls, holds some up for longer than their clients wait,
// and is killed (SIGKILL) and started again on the same port. What becomes of
// each debit is then read from the ledger's tables by package audit; the
// counts of attempts, retries and replays are what the clients saw.
package demo
