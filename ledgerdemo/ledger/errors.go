package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/ledgerdemo/currency"
)

// Domain is the domain of every ErrorInfo that the ledger makes.
const Domain = "ledger.retrysafe"

// The reasons of what the ledger refuses, as ledger.proto says.
const (
	ReasonInvalidRequest    = "INVALID_REQUEST"
	ReasonAccountNotFound   = "ACCOUNT_NOT_FOUND"
	ReasonAccountExists     = "ACCOUNT_EXISTS"
	ReasonInsufficientFunds = "INSUFFICIENT_FUNDS"
	ReasonCurrencyMismatch  = "CURRENCY_MISMATCH"
	ReasonBalanceLimit      = "BALANCE_LIMIT"
)

// Keys of ErrorInfo's metadata.
const (
	// MetadataShortfall is how many minor units are missing.
	MetadataShortfall = "shortfall"
	// MetadataCurrency is the currency of the shortfall.
	MetadataCurrency = "currency"
	// MetadataAccountCurrency is what the account holds.
	MetadataAccountCurrency = "account_currency"
)

const accountType = "ledger.v1.Account"

func refuse(code codes.Code, message string, details ...protoadapt.MessageV1) error {
	st := status.New(code, message)
	if detailed, err := st.WithDetails(details...); err == nil {
		st = detailed
	}
	return st.Err()
}

func info(reason string, metadata map[string]string) *errdetails.ErrorInfo {
	return &errdetails.ErrorInfo{Domain: Domain, Reason: reason, Metadata: metadata}
}

func accountNotFound(id string) error {
	return refuse(codes.NotFound, "the account does not exist",
		info(ReasonAccountNotFound, nil),
		&errdetails.ResourceInfo{ResourceType: accountType, ResourceName: id})
}

func accountExists(id string) error {
	return refuse(codes.AlreadyExists, "an account of that name exists",
		info(ReasonAccountExists, nil),
		&errdetails.ResourceInfo{ResourceType: accountType, ResourceName: id})
}

func insufficientFunds(shortfall int64, code string) error {
	return refuse(codes.FailedPrecondition, "the account lacks "+currency.Format(shortfall, code),
		info(ReasonInsufficientFunds, map[string]string{
			MetadataShortfall: strconv.FormatInt(shortfall, 10),
			MetadataCurrency:  code,
		}))
}

func currencyMismatch(holds string) error {
	return refuse(codes.FailedPrecondition, "the account holds "+holds,
		info(ReasonCurrencyMismatch, map[string]string{MetadataAccountCurrency: holds}))
}

func balanceLimit() error {
	return refuse(codes.OutOfRange, "the balance would not fit into 64 bits", info(ReasonBalanceLimit, nil))
}

// invalid collects what is wrong with a request, by field.
type invalid map[string]string

// add says what is wrong with field, where err is not nil. A field's first
// fault stands.
func (v invalid) add(field string, err error) {
	if _, known := v[field]; err != nil && !known {
		v[field] = err.Error()
	}
}

// err returns INVALID_ARGUMENT with all fields, or nil where none is wrong.
func (v invalid) err() error {
	if len(v) == 0 {
		return nil
	}
	bad := &errdetails.BadRequest{}
	message := "the request is invalid"
	for _, field := range slices.Sorted(maps.Keys(v)) {
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: field, Description: v[field]})
		message += fmt.Sprintf("; %s: %s", field, v[field])
	}
	return refuse(codes.InvalidArgument, message, info(ReasonInvalidRequest, nil), bad)
}

// errCommitUnknown: the answer to a COMMIT is lost, and nobody knows what it
// was.
var errCommitUnknown = errors.New("ledger: it is not known whether the transaction was committed")

// unknown answers where a movement may have taken place. The call may be tried
// again, but not at once: the code alone would say that nothing was done, so
// whoever deduplicates is told otherwise.
func unknown(ctx context.Context) error {
	if execution, ok := dedup.ExecutionFromContext(ctx); ok {
		execution.Settle(dedup.Uncertain)
	}
	return status.Error(codes.Unavailable, "the ledger's answer was lost")
}

// answer makes a status of an error. What the storage says stays in the
// server's log.
func (s *Service) answer(ctx context.Context, doing string, err error) error {
	var refusal interface{ GRPCStatus() *status.Status }
	switch {
	case err == nil || errors.As(err, &refusal):
		return err
	case errors.Is(err, errCommitUnknown):
		return unknown(ctx)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, "the ledger did not finish in time")
	case ctx.Err() != nil:
		return status.Error(codes.Canceled, "the call was cancelled")
	case errors.Is(err, errMoved) || s.storage.Transient(err):
		return status.Error(codes.Unavailable, "the ledger is busy")
	}
	s.logger.ErrorContext(ctx, "ledger: storage failed", "doing", doing, "error", err)
	return status.Error(codes.Internal, "the ledger failed")
}
