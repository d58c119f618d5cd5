package ledger

import (
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"

	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
)

func TestInvalidRequestsNameEachFieldAndChangeNothing(t *testing.T) {
	onEach(t, func(t *testing.T, k kit) {
		s, db := k.service, k.db
		open(t, s, "alice", "EUR", 1000)
		open(t, s, "bob", "EUR", 0)
		before := dump(t, db)

		one := money(1, "EUR")
		tests := []struct {
			name   string
			call   call
			fields []string
		}{
			{"nothing at all", debiting("", nil, ""), []string{"account_id", "amount"}},
			{"an empty amount", debiting("alice", &ledgerv1.Money{}, ""), []string{"amount.currency", "amount.minor_units"}},
			{"zero", debiting("alice", money(0, "EUR"), ""), []string{"amount.minor_units"}},
			{"a negative debit", debiting("alice", money(-1, "EUR"), ""), []string{"amount.minor_units"}},
			{"the smallest number", debiting("alice", money(math.MinInt64, "EUR"), ""), []string{"amount.minor_units"}},
			{"a negative credit", crediting("alice", money(-1, "EUR")), []string{"amount.minor_units"}},
			{"a negative transfer", transferring("alice", "bob", money(-1, "EUR")), []string{"amount.minor_units"}},
			{"an unknown currency", debiting("alice", money(1, "EUX"), ""), []string{"amount.currency"}},
			{"a currency in small letters", debiting("alice", money(1, "eur"), ""), []string{"amount.currency"}},
			{"a withdrawn currency", opening("carol", "DEM"), []string{"currency"}},
			{"a metal", opening("carol", "XAU"), []string{"currency"}},
			{"no currency", opening("carol", ""), []string{"currency"}},
			{"an account of the ledger's own", opening("settlement:EUR", "EUR"), []string{"account_id"}},
			{"debiting the settlement account", debiting("settlement:EUR", one, ""), []string{"account_id"}},
			{"a transfer into the settlement account", transferring("alice", "settlement:EUR", one), []string{"to_account_id"}},
			{"the same account twice", transferring("alice", "alice", one), []string{"to_account_id"}},
			{"a transfer without accounts", transferring("", "", one), []string{"from_account_id", "to_account_id"}},
			{"a name with a space", opening("al ice", "EUR"), []string{"account_id"}},
			{"a name with a quote", opening("al'ice", "EUR"), []string{"account_id"}},
			{"a name with a zero byte", opening("alice\x00", "EUR"), []string{"account_id"}},
			{"a name that begins with a dash", opening("-alice", "EUR"), []string{"account_id"}},
			{"a name that is not ASCII", opening("älice", "EUR"), []string{"account_id"}},
			{"a name that is too long", opening(strings.Repeat("a", 65), "EUR"), []string{"account_id"}},
			{"a reference that is too long", debiting("alice", one, strings.Repeat("r", 141)), []string{"reference"}},
			{"a reference with a line break", debiting("alice", one, "a\nb"), []string{"reference"}},
			{"a reference that is not UTF-8", debiting("alice", one, "a\xff"), []string{"reference"}},
			{"a negative page", listing(&ledgerv1.ListEntriesRequest{AccountId: "alice", PageSize: -1}), []string{"page_size"}},
			{"a page of nowhere", listing(&ledgerv1.ListEntriesRequest{AccountId: "alice", PageToken: "next"}), []string{"page_token"}},
			{"another account's page", listing(&ledgerv1.ListEntriesRequest{AccountId: "alice", PageToken: pageToken("bob", 1)}), []string{"page_token"}},
			{"no account to list", listing(&ledgerv1.ListEntriesRequest{}), []string{"account_id"}},
			{"no account to get", getting(""), []string{"account_id"}},
			{"a settlement account of no currency", getting("settlement:EUX"), []string{"account_id"}},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				err := tt.call(t.Context(), s)
				wantRefusal(t, err, codes.InvalidArgument, ReasonInvalidRequest)
				var fields []string
				for _, v := range detail[*errdetails.BadRequest](err).GetFieldViolations() {
					fields = append(fields, v.GetField())
					if v.GetDescription() == "" {
						t.Errorf("%s: no description", v.GetField())
					}
				}
				if !slices.Equal(fields, tt.fields) {
					t.Errorf("fields %v, want %v", fields, tt.fields)
				}
			})
		}
		if after := dump(t, db); after != before {
			t.Errorf("the ledger was\n%s\nand is\n%s", before, after)
		}
	})
}

func TestBusinessRulesRefuseAndChangeNothing(t *testing.T) {
	onEach(t, func(t *testing.T, k kit) {
		s, db := k.service, k.db
		open(t, s, "alice", "EUR", 1000)
		open(t, s, "bob", "EUR", 0)
		open(t, s, "yuki", "JPY", 5)
		open(t, s, "rich", "EUR", math.MaxInt64-1000)
		before := dump(t, db)

		tests := []struct {
			name     string
			call     call
			code     codes.Code
			reason   string
			metadata map[string]string
			resource string
		}{
			{"one more than there is", debiting("alice", money(1001, "EUR"), ""), codes.FailedPrecondition, ReasonInsufficientFunds,
				map[string]string{"shortfall": "1", "currency": "EUR"}, ""},
			{"all the money there could be", debiting("bob", money(math.MaxInt64, "EUR"), ""), codes.FailedPrecondition, ReasonInsufficientFunds,
				map[string]string{"shortfall": "9223372036854775807", "currency": "EUR"}, ""},
			{"a transfer of more than there is", transferring("alice", "bob", money(1320, "EUR")), codes.FailedPrecondition, ReasonInsufficientFunds,
				map[string]string{"shortfall": "320", "currency": "EUR"}, ""},
			{"an account that does not exist", debiting("nobody", money(1, "EUR"), ""), codes.NotFound, ReasonAccountNotFound, nil, "nobody"},
			{"a credit to nobody, in a currency that nobody holds", crediting("nobody", money(1, "CHF")), codes.NotFound, ReasonAccountNotFound, nil, "nobody"},
			{"a transfer from nobody", transferring("nobody", "bob", money(1, "EUR")), codes.NotFound, ReasonAccountNotFound, nil, "nobody"},
			{"a transfer to nobody", transferring("alice", "nobody", money(5000, "EUR")), codes.NotFound, ReasonAccountNotFound, nil, "nobody"},
			{"getting nobody", getting("nobody"), codes.NotFound, ReasonAccountNotFound, nil, "nobody"},
			{"listing nobody", listing(&ledgerv1.ListEntriesRequest{AccountId: "nobody"}), codes.NotFound, ReasonAccountNotFound, nil, "nobody"},
			{"a settlement account that is not there yet", getting("settlement:CHF"), codes.NotFound, ReasonAccountNotFound, nil, "settlement:CHF"},
			{"an account that exists", opening("alice", "EUR"), codes.AlreadyExists, ReasonAccountExists, nil, "alice"},
			{"an account that exists, in another currency", opening("alice", "GBP"), codes.AlreadyExists, ReasonAccountExists, nil, "alice"},
			{"a debit in another currency", debiting("alice", money(1, "JPY"), ""), codes.FailedPrecondition, ReasonCurrencyMismatch,
				map[string]string{"account_currency": "EUR"}, ""},
			{"a credit in a currency that nobody holds", crediting("alice", money(1, "CHF")), codes.FailedPrecondition, ReasonCurrencyMismatch,
				map[string]string{"account_currency": "EUR"}, ""},
			{"a transfer between currencies", transferring("alice", "yuki", money(1, "EUR")), codes.FailedPrecondition, ReasonCurrencyMismatch,
				map[string]string{"account_currency": "JPY"}, ""},
			{"a transfer that its receiver cannot hold", crediting("rich", money(1001, "EUR")), codes.OutOfRange, ReasonBalanceLimit, nil, ""},
			{"a credit that the settlement account cannot owe", crediting("bob", money(math.MaxInt64, "EUR")), codes.OutOfRange, ReasonBalanceLimit, nil, ""},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				err := tt.call(t.Context(), s)
				wantRefusal(t, err, tt.code, tt.reason)
				metadata := detail[*errdetails.ErrorInfo](err).GetMetadata()
				if len(metadata) != len(tt.metadata) {
					t.Errorf("metadata %v, want %v", metadata, tt.metadata)
				}
				for k, v := range tt.metadata {
					if metadata[k] != v {
						t.Errorf("metadata %v, want %v", metadata, tt.metadata)
					}
				}
				if got := detail[*errdetails.ResourceInfo](err).GetResourceName(); got != tt.resource {
					t.Errorf("resource %q, want %q", got, tt.resource)
				}
			})
		}
		if after := dump(t, db); after != before {
			t.Errorf("the ledger was\n%s\nand is\n%s", before, after)
		}
	})
}
