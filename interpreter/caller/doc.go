// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package caller calls resource interpreter webhooks from a control plane. It finds the webhook
// that is configured for an object and an operation, calls it in its protocol, and checks the
// answer before it is returned.
//
//	webhooks, err := caller.New(caller.Options{Client: dynamicClient, Mapper: mapper})
//	if err != nil {
//		return err
//	}
//	go webhooks.Start(ctx) // keeps the configurations current
//	<-webhooks.Ready()
//	answers := caller.Chain(own, webhooks, native.New(), kinds.New())
//	replicas, requirements, err := answers.Replicas(ctx, object)
//
// Without an API server, set the configurations with [Caller].SetConfigurations.
//
// # Which webhook
//
// The caller uses the first matching webhook, sorted by configuration/webhook as in Karmada. A
// webhook matches if a rule has the operation and the kind (Interpret) or resource and scope
// (Explore). Rules with resources match as those of admission webhooks do, and [Options].Mapper
// finds the resource of a kind. A rule for all kinds or resources, "*", does not match Secrets:
// name the kind Secret or the resource secrets. A lookup allocates nothing, and its time does not
// depend on the number of webhooks.
//
// # Guarantees
//
//   - The object in a query is never changed. Answers have new objects.
//   - An answer is used only if it is to this request, in its protocol, has the field of the
//     operation and no negative number, and has at most 8 MiB. Answers of Karmada's own server are
//     accepted: see [interpreter.DecodeResponse]. A patch must apply, and must not change
//     apiVersion, kind, name, namespace or UID of the object.
//   - A call takes at most the webhook's timeout, 10 s by default, with all its retries. Calls that
//     the server may have handled are not retried.
//   - Objects go only to services, and to hosts in [Options].AllowedHosts. Otherwise the author of
//     a configuration would choose where objects are sent. Connections to loopback, link-local and
//     metadata addresses are refused when they are made. The error is then [ErrNotAllowed].
//   - The error for an HTTP status other than 2xx has the status, and no part of the body.
//   - Redirects are not followed. Credentials go only to the servers for which
//     [Options].Credentials returns some.
//   - A configuration that becomes invalid does not silently switch a webhook off: calls to it
//     fail. If it cannot be decoded, the earlier version stays in effect. Both are logged, and counted as
//     invalid.
//
// # When a call fails
//
// The error is a [*CallError] with the webhook and the reason. It is also an
// [interpreter.ErrNotInterpreted], and a [Chain] calls the next interpreter, if the failure policy of
// the webhook is Ignore, or if the webhook answered with code 501: it does not implement the operation
// for the kind. In Karmada any answer without success is an error. Webhooks of the Interpret protocol
// have no failure policy: other failed calls to them stop a Chain.
//
// # Metrics
//
// With [Options].MetricsRegisterer, these metrics have the prefix spokewire_interpreter_caller_:
//
//	calls_total{webhook,operation,result}    counter    calls; the result is success or a [Reason]
//	call_seconds{webhook}                    histogram  time that calls took, with retries
//	retries_total{webhook}                   counter    retries of calls
//	webhooks{protocol}                       gauge      webhooks in the configurations
//	invalid_configurations                   gauge      invalid configurations
package caller
