package retry

// WithRejectForeign makes [UnaryServerInterceptor] refuse a call that shows a
// retry layer beside the owner, with FAILED_PRECONDITION and the reason
// MULTIPLE_RETRY_OWNERS, instead of warning. It is for servers.
func WithRejectForeign() Option {
	return func(c *config) { c.rejectForeign = true }
}

// refuseClientOptions reports the options that mean nothing to a server.
func (c *config) refuseClientOptions() {
	for _, p := range c.policies {
		c.wrong("%s: it is for clients", p.option)
	}
	for _, s := range c.safeties {
		c.wrong("%s: it is for clients", s.option)
	}
	for option, given := range map[string]bool{
		"WithServiceConfig":  c.serviceConfig != nil,
		"WithBudget":         c.budget != nil,
		"WithoutBudget":      c.noBudget,
		"WithOwner":          c.owner != "",
		"WithFailover":       c.hasFailover,
		"WithSharedStore":    c.sharedStore,
		"WithTracerProvider": c.tracerProvider != nil,
		"WithOnRetry":        c.onRetry != nil,
		"WithOnExhausted":    c.onExhausted != nil,
	} {
		if given {
			c.wrong("%s: it is for clients", option)
		}
	}
}

// refuseServerOptions reports the options that mean nothing to a client.
func (c *config) refuseServerOptions() {
	if c.rejectForeign {
		c.wrong("WithRejectForeign: it is for servers")
	}
}
