// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

// Livez and Readyz have the type healthz.Checker. With controller-runtime, pass them to
// AddHealthzCheck and AddReadyzCheck of the manager. The example LeaderElection shows this with
// leader election. This example serves them without a manager.
func Example_probes() {
	probe := func(check func(*http.Request) error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if err := check(r); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		}
	}
	source := must(work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "hub"}))
	mux := http.NewServeMux()
	mux.Handle("/livez", probe(source.Livez))
	mux.Handle("/readyz", probe(source.Readyz))
	get := func(path string) int {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		return answer.Code
	}

	fmt.Println("before: live", get("/livez"), "ready", get("/readyz"))
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- source.Start(ctx) }()
	<-source.Ready()
	fmt.Println("connected: live", get("/livez"), "ready", get("/readyz"))
	cancel()
	if err := <-stopped; err != nil {
		fmt.Println(err)
	}
	fmt.Println("stopped: live", get("/livez"), "ready", get("/readyz"))
	// Output:
	// before: live 200 ready 500
	// connected: live 200 ready 200
	// stopped: live 500 ready 500
}
