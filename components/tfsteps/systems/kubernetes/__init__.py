"""What the job systems on Kubernetes share: pod templates, replicas seen through pods, following and stopping a job."""
